mkdir -p crate/src
printf '[package]\nname = "small"\nversion = "0.1.0"\nedition = "2021"\n\n[workspace]\n' > crate/Cargo.toml
printf 'mod part;\nfn main() { println!("{}", part::sum(10)); }\n' > crate/src/main.rs
printf 'pub fn sum(n: u32) -> u32 { (1..=n).sum() }\n#[test]\nfn sums() { assert_eq!(sum(4), 10); }\n' > crate/src/part.rs
