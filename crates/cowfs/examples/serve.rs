//! Serves a database: `serve DATABASE MOUNTPOINT [BASE]`. The database is made if it is not there.
use std::path::{Path, PathBuf};
use std::sync::Arc;

use sandbox_cowfs::fuse::{Allow, Options, serve};
use sandbox_cowfs::store::Store;
use sandbox_cowfs::tree::{Base, Directory};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<PathBuf> = std::env::args_os().skip(1).map(Into::into).collect();
    let base = args.get(2).map(PathBuf::as_path);
    let store =
        if args[0].try_exists()? { Store::open(&args[0])? } else { Store::create(&args[0], base)? };
    let base = match store.base().map(Path::to_owned) {
        Some(path) => Some(Arc::new(Directory::open(&path)?) as Arc<dyn Base>),
        None => None,
    };
    let threads =
        args.get(3).and_then(|n| n.to_str()?.parse().ok()).unwrap_or(Options::default().threads);
    let options = Options {
        threads,
        allow: if rustix::process::geteuid().is_root() { Allow::All } else { Allow::Owner },
        ..Options::default()
    };
    serve(store, base, &args[1], &options, || {})?;
    Ok(())
}
