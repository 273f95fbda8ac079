//! `cargo xtask vm`: the live tests or one command in one guest, and the guests' kernels.

use crate::kernels::{KERNELS, Kernel};
use crate::setup::{self, For};
use crate::sh;
use anyhow::{Result, bail};
use std::process::Command;

/// `vm fetch [KERNEL…]`, `vm KERNEL [FILTER…]`, `vm KERNEL -- CMD…`
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
    let mut command = guest(kernel);
    match rest.split_first() {
        Some((dashes, words)) if dashes == "--" => {
            if words.is_empty() {
                bail!("vm KERNEL -- takes a command");
            }
            command.env("TRACER_GUEST_COMMAND", json(words));
            command.arg("--quiet");
        }
        _ => {
            command.arg("--").args(rest);
        }
    }
    let status = sh::status(&mut command)?;
    Ok(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1))
}

/// `cargo test` of one kernel's target.
pub fn guest(kernel: &Kernel) -> Command {
    sh::cargo(["test", "--profile", "ci", "--package", "tracer", "--all-features", "--test", kernel.target])
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
    fn words_are_quoted() {
        let words = ["a b".to_owned(), "\"\\\n".to_owned()];
        assert_eq!(super::json(&words), r#"["a b","\"\\\u000a"]"#);
    }
}
