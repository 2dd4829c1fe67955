//! Command rules: wrappers for commands that the sandboxed process runs by name.
//!
//! [`resolve`] finds every file that a name with a rule resolves to, and decides what replaces it. Inside the sandbox
//! [`launcher`] replaces it: it reads the markers that `resolve` wrote, and refuses, runs a script, asks
//! [`sandbox_git::command`], or runs the real program. `find` finds programs on the machine, `script` reads the user's
//! wrapper scripts.

mod find;
mod marker;
mod script;
mod shim;
mod resolve;
pub mod launcher;

pub use resolve::{Commands, Cover, CoverBy, Package, Ruled, RuntimeDir, RuntimeFile, resolve};
pub use script::WrapperError;

/// Returns true if a program acts according to the name it is called by.
pub(crate) fn is_multicall(program: &std::path::Path) -> bool {
    find::multicall(program).is_some()
}
