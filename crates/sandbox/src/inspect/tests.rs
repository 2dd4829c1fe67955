mod attacks;
mod plant;
mod quiet;
mod repositories;
mod world;
mod settings;
