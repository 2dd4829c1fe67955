//! Tasks that this program runs itself, in its working directory.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;

use crate::BenchError;

/// Argument with which this program runs itself.
pub(crate) const INSIDE: &str = "@cow-inside";

const BLOCK: usize = 1 << 20;
const PAGE: usize = 4096;

/// Runs a task.
pub(crate) fn inside(task: &str, amount: usize) -> Result<(), BenchError> {
    match task {
        "create" => create(amount),
        "stat" => (0..amount).try_for_each(|_| stat(Path::new("repo"))),
        "write" => write(amount),
        "read" => read(),
        "random-read" => random(amount, FileExt::read_exact_at),
        "random-write" => random(amount, |file, buffer, at| file.write_all_at(buffer, at)),
        "synced" => random(amount, |file, buffer, at| {
            file.write_all_at(buffer, at)?;
            file.sync_data()
        }),
        _ => Err(BenchError::Usage),
    }
}

/// Creates files of 2 KiB on average, 100 in each directory.
fn create(amount: usize) -> Result<(), BenchError> {
    for number in 0..amount {
        let dir = format!("small/{}", number / 100);
        if number % 100 == 0 {
            fs::create_dir_all(&dir)?;
        }
        fs::write(format!("{dir}/{number}"), vec![b'x'; 100 + (number * 7919) % 4000])?;
    }
    Ok(())
}

fn stat(dir: &Path) -> Result<(), BenchError> {
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        if fs::symlink_metadata(&path)?.is_dir() {
            stat(&path)?;
        }
    }
    Ok(())
}

fn write(blocks: usize) -> Result<(), BenchError> {
    let file = File::create("large")?;
    let mut block: Vec<u8> =
        (0..BLOCK).map(|at| u8::try_from((at * 31 + at / 251) % 256).unwrap_or(0)).collect();
    for number in 0..blocks {
        block[..8].copy_from_slice(&number.to_le_bytes());
        file.write_all_at(&block, (number * BLOCK) as u64)?;
    }
    Ok(())
}

fn read() -> Result<(), BenchError> {
    let file = File::open("large")?;
    let mut block = vec![0; BLOCK];
    let mut at = 0;
    loop {
        match file.read_at(&mut block, at)? {
            0 => return Ok(()),
            count => at += count as u64,
        }
    }
}

/// Accesses pages of the large file in a pseudo-random order.
fn random(
    amount: usize,
    act: impl Fn(&File, &mut [u8], u64) -> std::io::Result<()>,
) -> Result<(), BenchError> {
    let file = OpenOptions::new().read(true).write(true).open("large")?;
    let pages = file.metadata()?.len() / PAGE as u64;
    let mut buffer = vec![7; PAGE];
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    for _ in 0..amount {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        act(&file, &mut buffer, state % pages * PAGE as u64)?;
    }
    Ok(())
}
