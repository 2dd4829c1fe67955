//! Sessions in real containers: start, commands, stop, and the restrictions of an agent in one.

mod stage;
mod listened;
mod life;
mod entered;
mod attach;
mod sees;
mod hardening;
mod mounts;
mod network;
mod attacks;
mod cow;
mod cut_short;
mod late;
mod scale;
mod full;
mod host_commands;
mod set_up;
mod machine;
mod by_ssh;
