//! The data plane: accept → authenticate → swap the credential → forward → stream back.

mod worker;
mod door;
mod authenticate;
mod forward;
mod check;
mod body;
mod rewrite;
mod send;
mod exchange;
mod idle;
mod upload;
mod download;
mod tunnel;

pub(crate) use door::{Door, Scope};
pub(crate) use download::Body;
pub(crate) use upload::{Upload, UploadError};
pub(crate) use worker::{Accepted, Socket, Workers};
