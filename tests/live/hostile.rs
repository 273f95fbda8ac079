//! Objects that are none, or not what they say: an error that names the file and why, and never more.

use crate::context::Context;
use crate::kit::Dice;
use crate::objects::{THREE, file};
use crate::table::{Outcome, Test};
use anyhow::Result;

/// The tests of this file.
pub const TESTS: &[Test] = &[
    Test::new("hostile::what_an_object_cannot_be", what_an_object_cannot_be),
    Test::new("hostile::any_bytes_are_an_error", any_bytes_are_an_error).on_host().seconds(300),
];

fn what_an_object_cannot_be(ctx: &Context) -> Outcome {
    let path = file(ctx, THREE)?.display().to_string();
    let (all, by_name) = (format!("o:{path}"), |name: &str| format!("o:{path}:{name}"));
    let text = ctx.scratch.join("text.bpf.o");
    std::fs::write(&text, "no object at all\n")?;
    let text = format!("o:{}", text.display());
    let (nowhere, unknown) = (by_name("nowhere"), by_name("on_raw_tracepiont"));
    let cases: [(&[&str], i32, &[&str]); 15] = [
        (&["o:/no/such/file.bpf.o"], 4, &["/no/such/file.bpf.o", "No such file"]),
        (&[&text], 4, &["text.bpf.o", "no BPF object"]),
        (&[&unknown], 4, &["on_raw_tracepiont", "on_raw_tracepoint"]),
        (&[&nowhere], 4, &["no program says where", "nowhere"]),
        (&[&all, "--set", "basis=1"], 2, &["--set basis", "base"]),
        (&[&all, "--set", "base"], 2, &["'='"]),
        (&[&all, "--set", "base=much"], 2, &["--set base", "no number"]),
        (&[&all, "--set", "small=128"], 2, &["-128 to 127"]),
        (&[&all, "--set", "only_tgid=-1"], 2, &["0 to 4294967295"]),
        (&[&all, "--set", "loud=maybe"], 2, &["neither true nor false"]),
        (&[&all, "--set", "paint=PINK"], 2, &["RED, GREEN, BLUE"]),
        (&[&all, "--set", "label=eleven bytes"], 2, &["11"]),
        (&[&all, "--event", "by_wrod=asked"], 2, &["by_wrod", "by_word"]),
        (&[&all, "--event", "by_word=asekd"], 4, &["asekd", "did you mean asked"]),
        (&["s:write", "--set", "base=1"], 2, &["--set", "o:FILE"]),
    ];
    for (words, code, says) in cases {
        let ran = ctx.tracer(["run"].iter().chain(words)).run()?;
        let said = says.iter().all(|word| ran.stderr.contains(word));
        if ran.code() != code || !ran.stdout.is_empty() || !said {
            crate::fail!("wanted {code} and {says:?}: {ran}");
        }
    }
    Ok(())
}

/// Cut off anywhere, or with bytes changed: the file is refused, or is an object that loads.
fn any_bytes_are_an_error(ctx: &Context) -> Outcome {
    let mut dice = Dice::new(7);
    let try_one = |bytes: &[u8]| -> Result<i32> {
        let path = format!("o:{}", file(ctx, bytes)?.display());
        let ran = ctx.tracer(["run", "-q", "--dry-run", &path]).seconds(20).run()?;
        let code = ran.code();
        anyhow::ensure!((0..=4).contains(&code), "{ran}");
        anyhow::ensure!(code == 0 || ran.stderr.contains("error: "), "{ran}");
        Ok(code)
    };
    assert_eq!(try_one(THREE)?, 0);
    let mut refused = 0;
    for i in 0..40 {
        let cut = THREE.len() * i / 40;
        refused += u32::from(try_one(&THREE[..cut])? != 0);
    }
    assert_eq!(refused, 40, "no beginning of an object is one");
    for _ in 0..120 {
        let mut bytes = THREE.to_vec();
        for _ in 0..1 + dice.below(30) {
            let at = dice.below(bytes.len() as u64) as usize;
            bytes[at] = dice.roll() as u8;
        }
        try_one(&bytes)?;
    }
    Ok(())
}
