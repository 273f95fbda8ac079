//! That the guests are what the other tests take them for.

use crate::context::Context;
use crate::table::{Kernel, Outcome, Test, Variant};
use crate::{fail, skip};
use std::path::Path;

/// The tests of this file.
pub const TESTS: &[Test] = &[
    Test::new("house::kernel_is_the_one_asked_for", kernel_is_the_one_asked_for).in_guests(),
    Test::new("house::btf_is_there", btf_is_there),
    Test::new("house::kprobes_are_there", kprobes_are_there).may_skip(&[Kernel::Host]),
    Test::new("house::tracer_says_its_version", tracer_says_its_version),
    Test::new("house::tracefs_is_mounted", tracefs_is_mounted).in_guests(),
    Test::new("house::two_cpus", two_cpus).in_guests(),
    Test::new("house::cpu_1_goes_and_comes_back", cpu_1_goes_and_comes_back).in_guests(),
    Test::new("house::lockdown_is_on", lockdown_is_on).with(Variant::Lockdown),
    Test::new("house::paranoid_is_2", paranoid_is_2).with(Variant::Paranoid2),
    Test::new("house::cpu_1_comes_late", cpu_1_comes_late).with(Variant::OneOnline),
    Test::new("house::four_cpus", four_cpus).with(Variant::FourCpus),
    Test::new("house::preemption_is_full", preemption_is_full)
        .with(Variant::PreemptFull)
        .may_skip(&[Kernel::V5_10]),
];

fn kernel_is_the_one_asked_for(ctx: &Context) -> Outcome {
    assert_eq!(Some(&ctx.release), ctx.expected_release.as_ref());
    let version = ctx.version();
    let right = match ctx.kernel {
        Kernel::V5_10 => version == (5, 10),
        Kernel::V6_1 => version == (6, 1),
        Kernel::V6_12 => version == (6, 12),
        Kernel::Newest => version > (6, 12),
        Kernel::Host => true,
    };
    assert!(right, "{:?} runs {}", ctx.kernel, ctx.release);
    Ok(())
}

fn btf_is_there(_: &Context) -> Outcome {
    let btf = std::fs::metadata("/sys/kernel/btf/vmlinux")?;
    assert!(btf.len() > 1 << 20, "the kernel's BTF has {} bytes", btf.len());
    Ok(())
}

fn kprobes_are_there(ctx: &Context) -> Outcome {
    if !Path::new("/sys/bus/event_source/devices/kprobe/type").exists() {
        skip!("the kernel {} has no kprobes", ctx.release);
    }
    Ok(())
}

fn tracer_says_its_version(ctx: &Context) -> Outcome {
    let ran = ctx.tracer(["--version"]).succeed()?;
    // Once it says anything, it says its version.
    if !ran.stdout.is_empty() && !ran.stdout.contains(env!("CARGO_PKG_VERSION")) {
        fail!("{ran}");
    }
    Ok(())
}

fn tracefs_is_mounted(_: &Context) -> Outcome {
    assert!(Path::new("/sys/kernel/tracing/events/sched").is_dir());
    Ok(())
}

fn two_cpus(ctx: &Context) -> Outcome {
    assert_eq!(ctx.online()?, [0, 1]);
    Ok(())
}

fn cpu_1_goes_and_comes_back(ctx: &Context) -> Outcome {
    let gone = ctx.offline(1)?;
    assert_eq!(ctx.online()?, [0]);
    gone.back()?;
    assert_eq!(ctx.online()?, [0, 1]);
    Ok(())
}

fn lockdown_is_on(_: &Context) -> Outcome {
    let state = std::fs::read_to_string("/sys/kernel/security/lockdown")?;
    assert!(state.contains("[confidentiality]"), "{state}");
    Ok(())
}

fn paranoid_is_2(_: &Context) -> Outcome {
    assert_eq!(std::fs::read_to_string("/proc/sys/kernel/perf_event_paranoid")?.trim(), "2");
    Ok(())
}

fn cpu_1_comes_late(ctx: &Context) -> Outcome {
    assert_eq!(ctx.online()?, [0]);
    crate::context::switch(1, true)?;
    assert_eq!(ctx.online()?, [0, 1]);
    Ok(())
}

fn four_cpus(ctx: &Context) -> Outcome {
    assert_eq!(ctx.online()?, [0, 1, 2, 3]);
    Ok(())
}

fn preemption_is_full(ctx: &Context) -> Outcome {
    if ctx.version() < (5, 12) {
        skip!("the kernel {} does not know preempt=", ctx.release);
    }
    let model = std::fs::read_to_string("/sys/kernel/debug/sched/preempt")?;
    assert!(model.contains("(full)"), "{model}");
    Ok(())
}
