//! Every kind of probe fires as often as it should, with the right values, and the kernel's own run count agrees.

use crate::context::Context;
use crate::fail;
use crate::program::{self, TARGET};
use crate::table::{Kernel, Outcome, Test};
use crate::trace::{Event, Trace};
use std::collections::BTreeSet;

/// The tests of this file.
pub const TESTS: &[Test] = &[
    Test::new("probes::a_thousand_writes_of_dd", a_thousand_writes_of_dd),
    Test::new("probes::every_kind_has_its_values", every_kind_has_its_values),
    Test::new("probes::an_offset_in_a_function", an_offset_in_a_function),
    Test::new("probes::calls_of_32_bit_tasks_are_told_apart", calls_of_32_bit_tasks_are_told_apart)
        .may_skip(&[Kernel::Host]),
];

/// What `tracer run` with these specs and this command writes, ended with success.
fn trace(ctx: &Context, specs: &[&str], command: &[&str]) -> anyhow::Result<(Trace, String)> {
    let words: Vec<&str> =
        ["run", "-f", "json"].iter().chain(specs).chain(&["--"]).chain(command).copied().collect();
    let ran = ctx.tracer(words).succeed()?;
    Ok((Trace::read(&ran.stdout)?, ran.stderr))
}

fn a_thousand_writes_of_dd(ctx: &Context) -> Outcome {
    // Without its last words, which could be among the thousand: they come from another CPU where dd has moved.
    let dd = ["dd", "if=/dev/zero", "of=/dev/null", "bs=1", "count=2000", "status=none"];
    let (trace, said) = trace(ctx, &["-n", "1000", "s:write"], &dd)?;
    assert_eq!(trace.events().count(), 1000);
    let first = trace.events().next().map(|event| event.pid);
    for event in trace.events() {
        // Its output is descriptor 1, as dd puts it there.
        let right = event.event == "write"
            && event.comm == "dd"
            && Some(event.pid) == first
            && event.tid == event.pid;
        assert!(right && event.uid == 0 && (event.arg("fd"), event.arg("count")) == (1, 1), "{event:?}");
    }
    trace.sound()?;
    assert_eq!(trace.footer.missing, 0);
    let hook = &trace.header.probes[0].attached;
    // This host's kernel refuses trampolines and has no kprobes.
    let wanted = if ctx.is_guest() { "fentry on __x64_sys_write" } else { "BTF raw tracepoint sys_enter" };
    assert!(hook.starts_with(wanted) && said.contains(&format!("s:write: {wanted}")), "{hook}\n{said}");
    Ok(())
}

/// One run with all kinds at once. The program calls its own function and writes, a hundred times each.
fn every_kind_has_its_values(ctx: &Context) -> Outcome {
    const N: u64 = 100;
    let me = ctx.program_path()?;
    let (u, ur) = (format!("u:{me}:{TARGET}"), format!("ur:{me}:{TARGET}"));
    let mut specs = vec!["-v", "s:write", "rt:sys_enter", "t:syscalls:sys_enter_write", &u, &ur];
    if ctx.is_guest() {
        specs.extend(["k:ksys_write", "kr:ksys_write", "f:ksys_write", "fr:ksys_write"]);
        specs.extend(["back=fr:vfs_write", "ksyscall=k:__x64_sys_write"]);
    }
    let command: Vec<&str> = [&*me].into_iter().chain(program::args(&["calls", "100"])).collect();
    let (trace, said) = trace(ctx, &specs, &command)?;
    trace.sound()?;
    let names: Vec<&str> = trace.header.probes.iter().map(|probe| &*probe.name).collect();
    assert_eq!(names.len(), specs.len() - 1, "{said}");
    let distinct: BTreeSet<&str> = names.iter().copied().collect();
    assert_eq!(distinct.len(), names.len(), "events of two probes have one name: {names:?}");
    let of = |spec: &str| {
        let at = trace.footer.probes.iter().position(|probe| probe.spec == spec).expect("its accounts");
        let name = names[at];
        trace.events().filter(move |event| event.event == name)
    };
    let columns = |spec: &str, columns: &[&str]| -> Vec<Vec<u64>> {
        // CPU by CPU is how they come, and the program may have gone from one to the other.
        let mut events: Vec<&Event> = of(spec).collect();
        events.sort_by_key(|event| event.time);
        events.iter().map(|event| columns.iter().map(|column| event.arg(column)).collect()).collect()
    };
    // The program opens /dev/null and writes nothing else; its descriptor is the same all along.
    let fd = of("s:write").next().map_or(0, |event| event.arg("fd"));
    let writes: Vec<Vec<u64>> = (1..=N).map(|i| vec![fd, i]).collect();
    assert_eq!(columns("s:write", &["fd", "count"]), writes);
    assert_eq!(columns("t:syscalls:sys_enter_write", &["fd", "count"]), writes);
    assert!(of("t:syscalls:sys_enter_write").all(|event| event.arg("__syscall_nr") == 1));
    assert_eq!(of("rt:sys_enter").filter(|event| event.arg("id") == 1).count() as u64, N);
    assert_eq!(columns(&u, &["arg0", "arg1"]), (1..=N).map(|i| vec![i, 7]).collect::<Vec<_>>());
    assert_eq!(columns(&ur, &["ret"]), (1..=N).map(|i| vec![2 * i + 7]).collect::<Vec<_>>());
    if ctx.is_guest() {
        assert_eq!(columns("k:ksys_write", &["fd", "count"]), writes);
        assert_eq!(columns("f:ksys_write", &["fd", "count"]), writes);
        assert_eq!(columns("kr:ksys_write", &["ret"]), (1..=N).map(|i| vec![i]).collect::<Vec<_>>());
        let returns: Vec<Vec<u64>> = (1..=N).map(|i| vec![i, fd, i]).collect();
        assert_eq!(columns("fr:ksys_write", &["ret", "fd", "count"]), returns);
        let returns: Vec<Vec<u64>> = (1..=N).map(|i| vec![i, i]).collect();
        assert_eq!(columns("back=fr:vfs_write", &["ret", "count"]), returns);
        assert_eq!(of("ksyscall=k:__x64_sys_write").count() as u64, N);
    }
    let runs = trace.identity("runs").map(|identity| identity.holds);
    if runs != Some(Some(true)) {
        fail!("the run counts were not checked: {:?}\n{said}", trace.identity("runs"));
    }
    Ok(())
}

/// A uprobe at an offset is that many bytes on: 4, behind `endbr64` or the like, is no instruction's start everywhere,
/// so 0 as an offset is tried, and an offset that is no number is refused.
fn an_offset_in_a_function(ctx: &Context) -> Outcome {
    let me = ctx.program_path()?;
    let command: Vec<&str> = [&*me].into_iter().chain(program::args(&["calls", "10"])).collect();
    let (read, _) = trace(ctx, &[&format!("u:{me}:{TARGET}+0x0")], &command)?;
    read.sound()?;
    assert_eq!(read.events().count(), 10);
    if ctx.is_guest() {
        // A kprobe at +0 of a function written as an offset, and one that lies behind the function's first byte
        // inside an instruction or not: the kernel says, and no event is wrong.
        let ran = ctx.tracer(["run", "-n", "1", "k:ksys_write+0xfffff", "--", "true"]).run()?;
        assert_eq!(ran.code(), 4, "{ran}");
    }
    Ok(())
}

/// getppid, which is 110, and 32-bit calls of the number 110, which is iopl.
fn calls_of_32_bit_tasks_are_told_apart(ctx: &Context) -> Outcome {
    let me = ctx.program_path()?;
    let command: Vec<&str> = [&*me].into_iter().chain(program::args(&["compat", "30", "20"])).collect();
    let (trace, said) = trace(ctx, &["-v", "s:getppid"], &command)?;
    trace.sound()?;
    assert_eq!(trace.events().count(), 30, "{said}");
    // A hook on the 64-bit call's own entry never sees the others.
    let raw = trace.header.probes[0].attached.contains("sys_enter");
    assert_eq!(raw, !ctx.is_guest());
    assert_eq!(trace.footer.probes[0].compat, if raw { 20 } else { 0 }, "{said}");
    Ok(())
}
