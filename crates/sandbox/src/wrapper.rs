//! Command rules: what happens when the sandboxed process runs a command by its name.
//!
//! [`resolve`] finds every file that a ruled name leads to and says what is to stand in its place. Inside the
//! sandbox [`launcher`] stands there: it reads the markers that `resolve` wrote, and refuses, runs a script, asks
//! [`sandbox_git::command`], or runs the real program. `find` knows the machine's programs, `script` the user's wrapper scripts.

mod find;
mod marker;
mod script;
mod resolve;
pub mod launcher;

pub use resolve::{Commands, Cover, CoverBy, Package, Ruled, RuntimeDir, RuntimeFile, resolve};
pub use script::WrapperError;

/// Whether a program acts by the name it is called by.
pub(crate) fn is_multicall(program: &std::path::Path) -> bool {
    find::multicall(program).is_some()
}
