//! `tracer schema`: every line that a run writes is what the schema says, and what it does not say is refused.

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::{Value, json};

use crate::context::Context;
use crate::program;
use crate::table::{Outcome, Test};

/// The tests of this file.
pub const TESTS: &[Test] = &[
    Test::new("schema::lines_are_what_the_schema_says", lines_are_what_the_schema_says),
    Test::new("schema::of_functions", of_functions).in_guests(),
];

fn lines_are_what_the_schema_says(ctx: &Context) -> Outcome {
    let specs = [
        "s:connect",
        "s:clock_nanosleep{t:(struct __kernel_timespec *)rqtp, kstack, ustack, ret, lat}",
        "t:sched:sched_switch",
        "t:sock:inet_sock_set_state{family,newstate,a:daddr:ip4,b:daddr_v6:ip6,saddr}",
        "rt:sched_process_exec{m:bprm.file.f_inode.i_mode, p.cpus_mask.bits, p.comm, p.start_time:time}",
        "rt:hrtimer_start{mode,k:hrtimer:ksym,x:hrtimer:x}",
        "w=s:write{buf:buf[4],c:count:c,count:be16,fd:errno,bad:count:ustr}",
        "w=s:write{count}",
    ];
    for form in ["number", "string"] {
        conform(ctx, &specs, form, &["sockets"])?;
    }
    Ok(())
}

fn of_functions(ctx: &Context) -> Outcome {
    conform(
        ctx,
        &["k:vfs_write", crate::types::opener(ctx), "k:vfs_rea*", "f:vfs_write{file.f_mode,count}"],
        "number",
        &["calls", "3"],
    )?;
    Ok(())
}

/// Runs a workload under these specs, and holds each line against the schema of the same specs.
fn conform(ctx: &Context, specs: &[&str], form: &str, does: &[&str]) -> Result<()> {
    let asked: Vec<&str> = ["schema", "--json-int", form].iter().chain(specs).copied().collect();
    let schema: Value = serde_json::from_str(&ctx.tracer(asked).succeed()?.stdout)?;
    let me = std::env::current_exe()?.display().to_string();
    let words: Vec<&str> = (["run", "-f", "json", "--stats", "50ms", "--json-int", form].iter().copied())
        .chain(specs.iter().copied())
        .chain(["--", &me])
        .chain(program::args(does))
        .collect();
    let text = ctx.tracer(words).succeed()?.stdout;
    let mut seen: Vec<String> = Vec::new();
    for line in text.lines() {
        let line: Value = serde_json::from_str(line)?;
        hold(&schema, &schema, &line).with_context(|| format!("{line}"))?;
        if line["type"] == "event" {
            seen.push(line["event"].as_str().unwrap_or_default().to_owned());
            // What is not as it says is refused.
            let mut missing = line.clone();
            missing["args"].as_object_mut().map(serde_json::Map::clear);
            let mut more = line.clone();
            more["args"]["no such field"] = json!(1);
            let mut other = line;
            other["pid"] = json!("x");
            for bad in [missing, more, other] {
                ensure!(hold(&schema, &schema, &bad).is_err(), "taken: {bad}");
            }
        }
    }
    seen.sort_unstable();
    seen.dedup();
    ensure!(seen.len() >= specs.len().min(4), "events of few specs: {seen:?}");
    Ok(())
}

/// Whether a value is what a schema says; of the schemas that we write, nothing is passed over.
fn hold(root: &Value, schema: &Value, value: &Value) -> Result<()> {
    let all = schema.as_object().context("a schema is an object")?;
    for (keyword, said) in all {
        let holds = |schema: &Value| hold(root, schema, value);
        match keyword.as_str() {
            "$schema" | "$defs" | "title" | "description" => {}
            "$ref" => {
                let name = said.as_str().and_then(|s| s.strip_prefix("#/$defs/")).context("a reference")?;
                let name = name.replace("%20", " ");
                hold(root, root["$defs"].get(&name).with_context(|| format!("no {name}"))?, value)?;
            }
            "oneOf" => {
                let good = said.as_array().context("oneOf")?.iter().filter(|s| holds(s).is_ok()).count();
                ensure!(good == 1, "{good} of oneOf hold");
            }
            "anyOf" => {
                ensure!(said.as_array().context("anyOf")?.iter().any(|s| holds(s).is_ok()), "none of anyOf")
            }
            "allOf" => said.as_array().context("allOf")?.iter().try_for_each(holds)?,
            "type" => {
                let is = |kind: &Value| match kind.as_str() {
                    Some("null") => value.is_null(),
                    Some("boolean") => value.is_boolean(),
                    Some("string") => value.is_string(),
                    Some("integer") => value.is_i64() || value.is_u64(),
                    Some("array") => value.is_array(),
                    Some("object") => value.is_object(),
                    other => panic!("no type {other:?}"),
                };
                let any = said.as_array().map_or_else(|| is(said), |kinds| kinds.iter().any(is));
                ensure!(any, "{value} is no {said}");
            }
            "const" => ensure!(value == said, "{value} is not {said}"),
            "enum" => ensure!(said.as_array().context("enum")?.contains(value), "{value} is none of {said}"),
            "required" => {
                for key in said.as_array().context("required")? {
                    let there = key.as_str().is_some_and(|key| value.get(key).is_some());
                    ensure!(there || !value.is_object(), "no {key}");
                }
            }
            "properties" => {
                for (key, schema) in said.as_object().context("properties")? {
                    if let Some(inner) = value.get(key) {
                        hold(root, schema, inner).with_context(|| format!("of {key}"))?;
                    }
                }
            }
            "additionalProperties" => {
                for (key, inner) in value.as_object().into_iter().flatten() {
                    let known = all.get("properties").is_some_and(|p| p.get(key).is_some());
                    match said {
                        _ if known => {}
                        Value::Bool(allowed) => ensure!(allowed, "{key} is too much"),
                        schema => hold(root, schema, inner)?,
                    }
                }
            }
            "items" => value.as_array().into_iter().flatten().try_for_each(|one| hold(root, said, one))?,
            "minItems" => {
                ensure!(value.as_array().is_none_or(|a| a.len() as u64 >= said.as_u64().unwrap_or(0)))
            }
            "maxItems" => {
                ensure!(value.as_array().is_none_or(|a| a.len() as u64 <= said.as_u64().unwrap_or(0)))
            }
            "minimum" | "maximum" => {
                let number = |v: &Value| v.as_i64().map(i128::from).or_else(|| v.as_u64().map(i128::from));
                if let (Some(n), Some(bound)) = (number(value), number(said)) {
                    ensure!(
                        if keyword == "minimum" { n >= bound } else { n <= bound },
                        "{n}: {keyword} {bound}"
                    );
                }
            }
            "pattern" => {
                let text = value.as_str().unwrap_or_default();
                ensure!(
                    !value.is_string() || matches(said.as_str().unwrap_or_default(), text),
                    "{value}: {said}"
                );
            }
            "format" => {
                let text = value.as_str().unwrap_or_default();
                let good = match said.as_str() {
                    Some("ipv4") => text.parse::<std::net::Ipv4Addr>().is_ok(),
                    Some("ipv6") => text.parse::<std::net::Ipv6Addr>().is_ok(),
                    other => bail!("no format {other:?}"),
                };
                ensure!(good || !value.is_string(), "{value}: {said}");
            }
            other => bail!("no keyword {other}"),
        }
    }
    Ok(())
}

/// The patterns that our schemas have, each by hand.
fn matches(pattern: &str, text: &str) -> bool {
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let hex = |text: &str| text.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
    match pattern {
        "^[0-9]+$" => digits(text),
        "^-?[0-9]+$" => digits(text.strip_prefix('-').unwrap_or(text)),
        "^0x[0-9a-f]{1,16}$" => {
            text.strip_prefix("0x").is_some_and(|t| (1..=16).contains(&t.len()) && hex(t))
        }
        "^([0-9a-f][0-9a-f])*$" => text.len().is_multiple_of(2) && hex(text),
        "^0[0-7]*$" => text.starts_with('0') && text.bytes().all(|b| (b'0'..=b'7').contains(&b)),
        "^-E" => text.starts_with("-E"),
        "^[0-9]+:[0-9]+$" => text.split_once(':').is_some_and(|(a, b)| digits(a) && digits(b)),
        "^-?[0-9]+[.][0-9]{9}$" => {
            let parts = text.strip_prefix('-').unwrap_or(text).split_once('.');
            parts.is_some_and(|(a, b)| digits(a) && digits(b) && b.len() == 9)
        }
        other => panic!("no pattern {other}"),
    }
}
