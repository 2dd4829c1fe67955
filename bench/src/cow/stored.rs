//! How many bytes a tree stores for each that was written, once it is unmounted.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use testkit::Engine;

use super::ground::Ground;
use super::place::Place;
use super::table::Results;
use crate::BenchError;

/// Small files, and one large one.
pub(crate) fn measure(
    ground: &Ground,
    place: &Place,
    results: &mut Results,
    index: usize,
) -> Result<(), BenchError> {
    if !matches!(place.engine, Engine::AgentFs | Engine::Turso) {
        return Ok(());
    }
    for (small, words) in [
        (true, ground.own("create", ground.size.small)),
        (false, ground.own("write", ground.size.large)),
    ] {
        let mut tree = place.tree(ground, &format!("{}-stored-{small}", place.short));
        place.time(&tree, &words)?;
        let made = tree.path().join(if small { "small" } else { "large" });
        let content = bytes(&made, |meta| if meta.is_dir() { 0 } else { meta.len() })?;
        tree.unmount();
        let kept = bytes(&tree.dir().join(".agentfs"), |meta| meta.blocks() * 512)?;
        #[allow(clippy::cast_precision_loss, reason = "a ratio")]
        results.stored(index, small, kept as f64 / content as f64);
        Ground::sweep(tree)?;
    }
    Ok(())
}

fn bytes(path: &Path, count: fn(&fs::Metadata) -> u64) -> Result<u64, BenchError> {
    let meta = fs::symlink_metadata(path)?;
    let mut total = count(&meta);
    if meta.is_dir() {
        for entry in fs::read_dir(path)? {
            total += bytes(&entry?.path(), count)?;
        }
    }
    Ok(total)
}
