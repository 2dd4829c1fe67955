//! Programs that are too large for the plain tests, installed by `./dev test programs`: Java and Go behind an allow
//! list, and a real keyring behind `secret`.

#[path = "../e2e/egress/internet.rs"]
#[allow(dead_code, reason = "the plain tests use more of it")]
mod internet;
#[path = "../e2e/secrets/provider.rs"]
#[allow(dead_code, reason = "the plain tests use more of it")]
mod provider;
mod java;
mod golang;
mod keyring;
