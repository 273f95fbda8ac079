//! The project's own commands: set up, run, test, judge.

fn main() {}
