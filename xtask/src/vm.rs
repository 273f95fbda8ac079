//! `cargo xtask vm`: the live tests or one command in one guest, and the guests' kernels.

use crate::kernels::{KERNELS, Kernel};
use crate::setup::{self, For};
use crate::sh;
use anyhow::{Context, Result, bail};
use std::process::{Command, Stdio};

/// `vm fetch [KERNEL…]`, `vm KERNEL [FILTER]`, `vm KERNEL -- CMD…`
pub fn run(args: &[String]) -> Result<u8> {
    let Some((first, rest)) = args.split_first() else {
        bail!("vm takes a kernel (5.10, 6.1, 6.12 or newest) or `fetch`");
    };
    if first == "fetch" {
        for kernel in &KERNELS {
            if rest.is_empty() || rest.iter().any(|name| name == kernel.name) {
                kernel.fetch()?;
            }
        }
        return rest.iter().try_fold(0, |_, name| Kernel::named(name).map(|_| 0));
    }
    let kernel = Kernel::named(first)?;
    setup::set_up(For::Testing)?;
    if !kernel.is_here() {
        kernel.fetch()?;
    }
    let mut command = match rest.split_first() {
        Some((dashes, [])) if dashes == "--" => bail!("vm KERNEL -- takes a command"),
        Some((dashes, words)) if dashes == "--" => {
            // Not by `cargo test`, which would add its own word on a command that fails.
            let mut command = Command::new(program(kernel)?);
            command.env("TRACER_GUEST_COMMAND", json(words));
            command
        }
        _ => {
            let mut command = guest(kernel);
            command.arg("--").args(rest);
            command
        }
    };
    let status = sh::status(&mut command)?;
    Ok(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1))
}

/// `cargo test` of one kernel's target.
pub fn guest(kernel: &Kernel) -> Command {
    sh::cargo(["test", "--profile", "ci", "--package", "tracer", "--all-features", "--test", kernel.target])
}

/// Builds one kernel's target and says where it lies.
fn program(kernel: &Kernel) -> Result<String> {
    let mut command = guest(kernel);
    command
        .args(["--quiet", "--no-run", "--message-format=json-render-diagnostics"])
        .stderr(Stdio::inherit());
    let text = sh::text(&mut command)?;
    executable(&text, kernel.target).with_context(|| format!("cargo has built no `{}`", kernel.target))
}

/// Of cargo's messages, one JSON object a line, the path of a target's program.
fn executable(text: &str, target: &str) -> Option<String> {
    let name = format!("\"name\":\"{target}\"");
    let mut lines =
        text.lines().filter(|line| line.contains("\"compiler-artifact\"") && line.contains(&name));
    let path = lines.find_map(|line| line.split("\"executable\":\"").nth(1))?.split('"').next()?;
    Some(path.to_owned())
}

/// A JSON list of strings.
fn json(words: &[String]) -> String {
    let quoted = words.iter().map(|word| {
        let inner = word.chars().map(|c| match c {
            '"' => "\\\"".to_owned(),
            '\\' => "\\\\".to_owned(),
            c if u32::from(c) < 0x20 => format!("\\u{:04x}", u32::from(c)),
            c => c.to_string(),
        });
        format!("\"{}\"", inner.collect::<String>())
    });
    format!("[{}]", quoted.collect::<Vec<_>>().join(","))
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_program_is_found_in_cargos_messages() {
        let text = "{\"reason\":\"compiler-artifact\",\"target\":{\"name\":\"tracer\"},\"executable\":\"/t/tracer\"}\n\
            {\"reason\":\"compiler-artifact\",\"target\":{\"name\":\"guest_6_1\"},\"executable\":\"/t/g-1\",\"fresh\":true}\n";
        assert_eq!(super::executable(text, "guest_6_1").as_deref(), Some("/t/g-1"));
        assert_eq!(super::executable(text, "guest_6_12"), None);
    }

    #[test]
    fn words_are_quoted() {
        let words = ["a b".to_owned(), "\"\\\n".to_owned()];
        assert_eq!(super::json(&words), r#"["a b","\"\\\u000a"]"#);
    }
}
