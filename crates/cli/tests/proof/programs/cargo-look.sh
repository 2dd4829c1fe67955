cd crate
target/debug/small
cargo build 2>&1 | grep -c Finished
cargo build 2>&1 | grep -c Compiling || true
