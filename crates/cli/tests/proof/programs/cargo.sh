cd crate
cargo build --quiet
target/debug/small
echo '// changed' >> src/part.rs
sed -i 's/sum(10)/sum(100)/' src/main.rs
cargo build --quiet
target/debug/small
cargo test --quiet | grep -c 'test result: ok'
