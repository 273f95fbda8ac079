//! Objects and programs that are none, or not what they say: an error that names the file and why, and never more.

use crate::context::Context;
use crate::kit::Dice;
use crate::objects::{THREE, file};
use crate::table::{Outcome, Test};
use anyhow::Result;

/// The tests of this file.
pub const TESTS: &[Test] = &[
    Test::new("hostile::what_an_object_cannot_be", what_an_object_cannot_be),
    Test::new("hostile::any_bytes_are_an_error", any_bytes_are_an_error).on_host().seconds(300),
    Test::new("hostile::a_program_whose_symbols_have_no_size", a_program_whose_symbols_have_no_size)
        .on_host(),
    #[cfg(target_arch = "x86_64")]
    Test::new("hostile::a_probe_within_an_instruction", a_probe_within_an_instruction).on_host(),
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

/// libbpf divides by the size of a symbol.
fn a_program_whose_symbols_have_no_size(ctx: &Context) -> Outcome {
    let mut bytes = std::fs::read(ctx.program_path()?)?;
    let word = |bytes: &[u8], at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("8 bytes"));
    let half = |bytes: &[u8], at: usize| usize::from(u16::from_le_bytes([bytes[at], bytes[at + 1]]));
    // e_shoff, e_shentsize and e_shnum; of a section, sh_type and sh_entsize.
    let (first, size, count) = (word(&bytes, 40) as usize, half(&bytes, 58), half(&bytes, 60));
    let mut tables = 0;
    for section in (0..count).map(|i| first + i * size) {
        if matches!(half(&bytes, section + 4), 2 | 11) {
            bytes[section + 56..section + 64].fill(0);
            tables += 1;
        }
    }
    assert!(tables > 0, "this program has no symbols");
    let path = ctx.scratch.join("unsized");
    std::fs::write(&path, bytes)?;
    std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755))?;
    for target in ["u:{}:main", "ur:{}:main", "u:{}:tracer_*", "ur:{}:tracer_*"] {
        let target = target.replace("{}", &path.display().to_string());
        for command in ["run", "stat"] {
            let ran = ctx.tracer([command, &target]).run()?;
            assert!(ran.code() == 4 && ran.stderr.contains("damaged"), "{ran}");
        }
    }
    Ok(())
}

/// The tracer names the instructions around it, and a probe can be at those.
#[cfg(target_arch = "x86_64")]
fn a_probe_within_an_instruction(ctx: &Context) -> Outcome {
    let me = ctx.program_path()?;
    let dry = |place: &str| ctx.tracer(["run", "-q", "--dry-run", &format!("u:{me}:{place}")]).run();
    let mut refused = 0;
    for offset in 1..24 {
        let ran = dry(&format!("tracer_live_recursive+{offset}"))?;
        if ran.code() == 0 {
            continue;
        }
        assert!(ran.code() == 4 && ran.stderr.contains("within an instruction"), "{ran}");
        let Some((_, around)) = ran.stderr.split_once("instructions begin at ") else {
            crate::fail!("{ran}")
        };
        let Some((before, after)) = around.trim_end().split_once(" and ") else { crate::fail!("{ran}") };
        for place in [before, after] {
            let ran = dry(place)?;
            assert!(ran.code() == 0, "{ran}");
        }
        refused += 1;
    }
    assert!((6..23).contains(&refused), "{refused} of 23");
    let ran = dry("tracer_live_recursive+0x10000")?;
    assert!(ran.code() == 4 && ran.stderr.contains("bytes"), "{ran}");
    Ok(())
}
