//! Builds what the crate embeds.

fn main() {}
