//! Fields, strings and predicates: what they show and turn away is what the workload did.

use crate::context::Context;
use crate::program::{self, TARGET};
use crate::table::{Outcome, Test};
use crate::trace::Trace;
use std::collections::BTreeSet;

/// The tests of this file.
pub const TESTS: &[Test] = &[
    Test::new("fields::strings_of_system_calls", strings_of_system_calls),
    Test::new("fields::the_function", the_function),
    Test::new("fields::the_path_of_a_file", the_path_of_a_file),
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
    seen.sound()?;
    // At the return the name has been read by the kernel, so it is there for us too.
    let spec = "s:openat/filename==\"named*a-t??t\"/{filename,ret}";
    let seen = trace(ctx, &[spec], &["sh", "-c", &there])?;
    let names: Vec<&str> = seen.events().map(|event| event.text("filename")).collect();
    assert_eq!(names, ["named-by-a-test"]);
    seen.sound()
}

/// From the root down, over a mount on the way; of a dentry within its file system.
fn the_path_of_a_file(ctx: &Context) -> Outcome {
    let dd = ctx.renamed("dd", "dd-by-path")?;
    let below = ctx.scratch.join("mounted");
    std::fs::create_dir(&below)?;
    nix::mount::mount(Some("none"), &below, Some("tmpfs"), nix::mount::MsFlags::empty(), None::<&str>)?;
    let mounted = (|| {
        std::fs::create_dir(below.join("in"))?;
        std::fs::copy(&dd, below.join("in/dd-mounted"))?;
        paths_of_two(ctx, &dd, &below)
    })();
    nix::mount::umount(&below)?;
    mounted
}

/// Of two programs by their paths, the second below a mount.
fn paths_of_two(ctx: &Context, dd: &str, below: &std::path::Path) -> Outcome {
    let script = format!("{dd} count=0 status=none; {}/in/dd-mounted count=0 status=none", below.display());
    let fields = "{whole:path(bprm.file), own:path(bprm.file.f_path.dentry)}";
    let spec = format!("rt:sched_process_exec/comm==\"dd-*\"/{fields}");
    let seen = trace(ctx, &[&spec], &["sh", "-c", &script])?;
    seen.sound()?;
    let paths: Vec<(&str, &str)> =
        seen.events().map(|event| (event.text("whole"), event.text("own"))).collect();
    let real = |path: &std::path::Path| anyhow::Ok(path.canonicalize()?.to_string_lossy().into_owned());
    let plain = real(std::path::Path::new(dd))?;
    let mounted = format!("{}/in/dd-mounted", real(below)?);
    let [(first, own), (second, in_mount)] = paths[..] else { panic!("{paths:?}") };
    assert!(first == plain && plain.ends_with(own) && !own.is_empty(), "{paths:?}, {plain}");
    assert_eq!((second, in_mount), (&*mounted, "/in/dd-mounted"), "{paths:?}");
    Ok(())
}

/// The address of the function, whatever the hook.
fn the_function(ctx: &Context) -> Outcome {
    let me = ctx.program_path()?;
    let command: Vec<&str> = [&*me].into_iter().chain(program::args(&["calls", "5"])).collect();
    let mut specs = vec![format!("a=u:{me}:{TARGET}{{func}}")];
    if ctx.is_guest() && ctx.version() >= (5, 17) {
        specs.extend(["k", "kr", "f", "fr"].map(|p| format!("{p}:vfs_write{{func}}")));
    }
    let specs: Vec<&str> = specs.iter().map(String::as_str).collect();
    let seen = trace(ctx, &specs, &command)?;
    seen.sound()?;
    for event in seen.events().filter(|event| event.event != "a") {
        assert!(event.shown("func").starts_with("vfs_write"), "{event:?}");
    }
    let targets: BTreeSet<u64> =
        seen.events().filter(|event| event.event == "a").map(|event| event.arg("func")).collect();
    assert_eq!(targets.len(), 1, "{targets:?}");
    Ok(())
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
    for provider in ["k", "f", "fr"] {
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
        ("comm==\"*d\"", 50),
        ("comm==\"?*d*\"", 50),
        ("comm==\"*dd?\"", 0),
        ("comm!=\"d*d\"", 0),
        ("comm==\"*d*d\" && comm==\"d*\" && fd in (1, 2, 3)", 50),
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
