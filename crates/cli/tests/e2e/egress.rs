//! Hosts by name: a sandbox, the proxy, and a small test internet.

mod internet;
mod clients;
mod attacks;
mod settings;
mod uploads;
mod life;
mod logins;
