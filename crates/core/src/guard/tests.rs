mod attacks;
mod plant;
mod quiet;
pub(crate) mod world;
mod settings;
