//! Review of a session's changes: look at them, apply them, revert an apply, discard them.
//!
//! ```text
//! open         session → a `Review` with its lock, and one `OpenRoot` for each directory
//! select       paths that the caller names → paths below the roots
//! later        path → the program that runs it later, which holds it back
//! repository   the commits of changed git repositories, and what in them runs code later
//! line         the selected changes, with line counts
//! report       all of it as data for programs
//! patch        the part of it that `git apply` takes
//! plan         selection → what an apply does, and what it leaves
//! perform      free space, journal, apply; completion of an interrupted one
//! undo         the last apply, backwards
//! discard      paths, or everything
//! summary      the size of a session's changes
//! work         the work that removing a session would lose
//! history      runs, snapshots, applies and undos of a session
//! shown        paths and repositories as text for a reader
//! ```
//! Nothing here prints, asks or exits: the command line and the HTTP API do that with what is returned.

mod error;
mod open;
mod select;
mod later;
mod repository;
mod line;
mod report;
mod patch;
mod plan;
mod perform;
mod undo;
mod discard;
mod summary;
mod work;
mod history;
mod shown;

pub use error::{ResumeError, ReviewError};
pub use history::{Event, history};
pub use line::{Counted, Line, Status, lines};
pub use open::{OpenRoot, Review};
pub use patch::{LeftOut, Patch};
pub use perform::Resumed;
pub use plan::{deletions_to_confirm, plan, steps};
pub use report::{
    ChangeReport, CheckoutReport, CommitReport, DiffReport, HeadReport, HeldReport, LeftReport,
    PathText, PlanReport, RefReport, RepositoryReport, SideReport, StepReport,
};
pub use repository::{Effect, inspect};
pub use select::Selected;
pub use shown::{Shown, shown};
pub use summary::Summary;
pub use work::unapplied;
