//! `tracer schema`: the JSON Schema of the lines that `tracer run -f json` writes for some specs.

use std::{
    io::{self, Write},
    process::ExitCode,
};

use tracer::{
    Error, ErrorKind, Result, probe,
    sink::{json, json_schema},
};

use super::{
    args::{JsonInt, SchemaOf},
    plan,
};

/// Runs it.
pub fn run(args: &SchemaOf) -> Result<ExitCode> {
    let mut schemas: Vec<tracer::schema::Schema> = Vec::new();
    for spec in plan::specs(&args.specs)? {
        for mut schema in probe::find(&spec)?.schemas()? {
            // As a session names events that would have one name.
            let mut names = std::iter::once(schema.name.clone());
            let mut others = (2..).map(|n| format!("{}_{n}", schema.name));
            let taken = |name: &String| schemas.iter().any(|s| s.name == *name);
            let name = names.find(|name| !taken(name)).or_else(|| others.find(|name| !taken(name)));
            schema.name = name.unwrap_or_default();
            schemas.push(schema);
        }
    }
    let options = json::Options { int_strings: args.json_int == JsonInt::String };
    let text = format!("{:#}\n", json_schema::document(&schemas, options));
    let mut out = io::stdout();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(e) if e.kind() != io::ErrorKind::BrokenPipe => {
            Err(Error::caused(ErrorKind::Sink, "writing to stdout", e))
        }
        _ => Ok(ExitCode::SUCCESS),
    }
}
