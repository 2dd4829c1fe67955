#![no_main]
#[path = "../src/request.rs"]
mod request;
libfuzzer_sys::fuzz_target!(|data: &[u8]| request::request(data));
