//! Fields, strings and predicates: what they show and turn away is what the workload did.

use crate::context::Context;
use crate::table::{Outcome, Test};
use crate::trace::Trace;

/// The tests of this file.
pub const TESTS: &[Test] = &[
    Test::new("fields::strings_of_system_calls", strings_of_system_calls),
    Test::new("fields::members_over_pointers", members_over_pointers),
    Test::new("fields::names_of_files_written", names_of_files_written).in_guests(),
    Test::new("fields::predicates_turn_away_before_anything_is_copied", predicates_turn_away),
    Test::new("fields::a_bad_pointer_is_a_fault", a_bad_pointer_is_a_fault),
];

fn trace(ctx: &Context, specs: &[&str], command: &[&str]) -> anyhow::Result<Trace> {
    let words: Vec<&str> =
        ["run", "-f", "json"].iter().chain(specs).chain(&["--"]).chain(command).copied().collect();
    Trace::read(&ctx.tracer(words).succeed()?.stdout)
}

fn strings_of_system_calls(ctx: &Context) -> Outcome {
    std::fs::write(ctx.scratch.join("named-by-a-test"), "x")?;
    let there =
        format!("cd {} && exec dd if=named-by-a-test of=/dev/null status=none", ctx.scratch.display());
    let spec = "s:openat/filename==\"named-by-a-*\"/{filename,flags}";
    let seen = trace(ctx, &[spec], &["sh", "-c", &there])?;
    let names: Vec<&str> = seen.events().map(|event| event.text("filename")).collect();
    assert_eq!(names, ["named-by-a-test"]);
    seen.sound()
}

fn members_over_pointers(ctx: &Context) -> Outcome {
    let fields = "{p.pid, p.comm, f:bprm.file.f_path.dentry.d_name.name, bprm.argc}";
    let spec = format!("rt:sched_process_exec{fields}");
    let seen = trace(ctx, &[&spec], &["dd", "if=/dev/null", "of=/dev/null", "status=none"])?;
    let event = seen.events().next().ok_or_else(|| anyhow::anyhow!("no exec was seen"))?;
    assert_eq!(
        (event.text("p.comm"), event.arg("p.pid"), event.arg("bprm.argc")),
        ("dd", event.pid.into(), 4)
    );
    // What /bin/dd is a link to may have another name, which starts alike or not; it is not empty.
    assert!(!event.text("f").is_empty(), "{event:?}");
    seen.sound()
}

fn names_of_files_written(ctx: &Context) -> Outcome {
    let file = ctx.scratch.join("written");
    let output = format!("of={}", file.display());
    let dd = ["dd", "if=/dev/zero", &output, "bs=512", "count=5", "status=none"];
    let fields = "/comm==\"dd\"/{name:file.f_path.dentry.d_name.name, count}";
    for provider in ["k", "f"] {
        let spec = format!("{provider}:vfs_write{fields}");
        let seen = trace(ctx, &[&spec], &dd)?;
        let named: Vec<(&str, u64)> =
            seen.events().map(|event| (event.text("name"), event.arg("count"))).collect();
        assert_eq!(named, [("written", 512); 5], "{spec}");
        seen.sound()?;
    }
    Ok(())
}

fn predicates_turn_away(ctx: &Context) -> Outcome {
    let dd = ["dd", "if=/dev/zero", "of=/dev/null", "bs=7", "count=50", "status=none"];
    let all = |spec: &str| -> anyhow::Result<(usize, u64)> {
        let seen = trace(ctx, &[spec], &dd)?;
        assert!(seen.sound().is_ok(), "{spec}");
        Ok((seen.events().count(), seen.footer.probes[0].filtered))
    };
    for (predicate, events) in [
        ("count==7", 50),
        ("count!=7", 0),
        ("count>=7 && fd==1", 50),
        ("count<7 || comm==\"dd\"", 50),
        ("comm==\"d?\"", 50),
        ("comm==\"ddd\"", 0),
        ("!(comm==\"d*\")", 0),
        ("fd in (3, 1, 4)", 50),
        ("count&4", 50),
        ("count&8", 0),
    ] {
        let (seen, filtered) = all(&format!("s:write/{predicate}/{{count}}"))?;
        assert_eq!(seen, events, "{predicate}");
        assert!(filtered as usize >= 50 - events, "{predicate}: filtered {filtered}");
    }
    Ok(())
}

fn a_bad_pointer_is_a_fault(ctx: &Context) -> Outcome {
    let dd = ["dd", "if=/dev/zero", "of=/dev/null", "bs=7", "count=3", "status=none"];
    // A count of seven is no address.
    let seen = trace(ctx, &["s:write{count:ustr, fd}"], &dd)?;
    assert_eq!(seen.events().count(), 3);
    for event in seen.events() {
        assert!(event.faulty("count") && event.arg("fd") == 1, "{event:?}");
    }
    seen.sound()
}
