//! Write amplification: stored bytes for each written byte, after the unmount.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use testkit::Engine;

use super::candidate::Candidate;
use super::fixture::Fixture;
use super::table::Results;
use crate::BenchError;

/// Measures small files and one large file.
pub(crate) fn measure(
    fixture: &Fixture,
    candidate: &Candidate,
    results: &mut Results,
    index: usize,
) -> Result<(), BenchError> {
    if !matches!(candidate.engine, Engine::AgentFs | Engine::Turso) {
        return Ok(());
    }
    for (small, words) in [
        (true, fixture.own("create", fixture.size.small)),
        (false, fixture.own("write", fixture.size.large)),
    ] {
        let mut tree = candidate.tree(fixture, &format!("{}-stored-{small}", candidate.short));
        candidate.time(&tree, &words)?;
        let made = tree.path().join(if small { "small" } else { "large" });
        let content = bytes(&made, |meta| if meta.is_dir() { 0 } else { meta.len() })?;
        tree.unmount();
        let kept = bytes(&tree.dir().join(".agentfs"), |meta| meta.blocks() * 512)?;
        #[allow(clippy::cast_precision_loss, reason = "a ratio")]
        results.stored(index, small, kept as f64 / content as f64);
        Fixture::remove(tree)?;
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
