//! Database as the source: the tree that it shows, including its base.

use super::{Item, Sink, TransferError, Watch};
use crate::RelPath;
use crate::database::{Database, TreeEntry};

/// Sends the tree that a database shows.
pub fn from_database(
    database: &Database,
    sink: &mut dyn Sink,
    watch: &mut Watch<'_>,
) -> Result<(), TransferError> {
    let root = database.root()?;
    sink.root(&root.inode)?;
    for spot in database.below(&root)? {
        let item = item(database, &spot)?;
        let file = spot.inode.is_file().then(|| database.read(&spot)).transpose()?;
        let content = file.map(|content| content as Box<dyn std::io::Read>);
        watch.hand(sink, &item, content)?;
    }
    Ok(())
}

fn item(database: &Database, spot: &TreeEntry) -> Result<Item, TransferError> {
    let path = RelPath::new(&spot.path)
        .ok_or_else(|| TransferError::Refused { path: spot.path.clone(), what: "invalid path" })?;
    let several = spot.inode.links > 1 && !spot.inode.is_dir();
    let same = several.then(|| database.number(spot)).transpose()?;
    Ok(Item {
        path,
        inode: spot.inode,
        target: if spot.inode.is_symlink() { Some(database.link_target(spot)?) } else { None },
        same,
        xattrs: database.attributes(spot)?,
    })
}
