//! Which tasks are traced: each filter lets through what it says, and nothing else.

use crate::context::Context;
use crate::fail;
use crate::job::Running;
use crate::program;
use crate::table::{Outcome, Test};
use crate::trace::Trace;
use anyhow::{Context as _, Result};
use nix::sys::signal::Signal;

/// The tests of this file.
pub const TESTS: &[Test] = &[
    Test::new("filters::a_process_and_its_later_children", a_process_and_its_later_children),
    Test::new("filters::one_thread", one_thread),
    Test::new("filters::the_end_of_the_last_process", the_end_of_the_last_process),
    Test::new("filters::a_process_id_that_is_used_again", a_process_id_that_is_used_again).in_guests(),
    Test::new("filters::names", names),
    Test::new("filters::users", users),
    Test::new("filters::cgroups", cgroups).in_guests(),
    Test::new("filters::cpus", cpus),
    Test::new("filters::the_tracer_itself", the_tracer_itself),
    Test::new("filters::a_pid_namespace", a_pid_namespace),
];

/// The tracer with these words, once it is attached.
fn traced(ctx: &Context, words: &[&str]) -> Result<Running> {
    let mut tracer = ctx.tracer(["run", "-f", "json"].iter().chain(words)).start()?;
    tracer.until("the header", |job| job.stdout().contains("\"header\""))?;
    Ok(tracer)
}

/// Ends it in order.
fn end(tracer: Running) -> Result<Trace> {
    tracer.signal(Signal::SIGTERM)?;
    let ran = tracer.finish()?;
    anyhow::ensure!(ran.code() == 0, "{ran}");
    let trace = Trace::read(&ran.stdout)?;
    anyhow::ensure!(trace.footer.balanced, "{ran}");
    Ok(trace)
}

fn writes(ctx: &Context, dd: &str, count: u32, before: &[&str]) -> Result<()> {
    let count = format!("count={count}");
    let words: Vec<&str> = before
        .iter()
        .copied()
        .chain([dd, "if=/dev/zero", "of=/dev/null", "bs=1", &count, "status=none"])
        .collect();
    ctx.job(words[0], &words[1..]).succeed().map(drop)
}

/// A shell that waits for a file, and then does what the script says.
fn waiting(ctx: &Context, script: &str) -> Result<Running> {
    let script = format!("while ! [ -e go ]; do sleep 0.05; done; {script}");
    ctx.job("sh", ["-c", &script])
        .with(|command| {
            command.current_dir(&ctx.scratch);
        })
        .start()
}

fn go(ctx: &Context) -> Result<()> {
    std::fs::write(ctx.scratch.join("go"), "").context("cannot make a file")
}

fn a_process_and_its_later_children(ctx: &Context) -> Outcome {
    let dd = |count: u32| format!("dd if=/dev/zero of=/dev/null bs=1 count={count} status=none");
    let shell = waiting(ctx, &format!("{}; ({} & sh -c '{}; true'); wait; sleep 1", dd(10), dd(20), dd(30)))?;
    let tracer = traced(ctx, &["-p", &shell.pid().to_string(), "s:write"])?;
    writes(ctx, "dd", 1000, &[])?;
    go(ctx)?;
    assert!(shell.finish()?.status.success());
    let trace = end(tracer)?;
    trace.sound()?;
    assert_eq!(trace.events().filter(|event| event.comm == "dd").count(), 60);
    assert_eq!(trace.events().count(), 60);
    Ok(())
}

fn one_thread(ctx: &Context) -> Outcome {
    let me = ctx.program_path()?;
    let go_file = ctx.scratch.join("go").display().to_string();
    let mut threads = ctx.job(&me, program::args(&["wait", &go_file, "3", "200"])).start()?;
    threads.until("its threads", |job| job.stdout().lines().count() == 3)?;
    let ids: Vec<u32> = threads.stdout().lines().map(|line| line.parse().expect("a thread's id")).collect();
    let tracer = traced(ctx, &["-p", &ids[1].to_string(), "s:write"])?;
    go(ctx)?;
    assert!(threads.finish()?.status.success());
    let trace = end(tracer)?;
    trace.sound()?;
    assert_eq!(trace.events().count(), 200);
    assert!(trace.events().all(|event| event.tid == ids[1] && event.pid != event.tid));
    Ok(())
}

fn a_process_id_that_is_used_again(ctx: &Context) -> Outcome {
    let shell = waiting(ctx, "dd if=/dev/zero of=/dev/null bs=1 count=10 status=none; exit")?;
    let id = shell.pid().as_raw();
    // The run would end with the last of them.
    let other = ctx.job("sleep", ["600"]).start()?;
    let both = format!("{id},{}", other.pid());
    let tracer = traced(ctx, &["-p", &both, "s:write"])?;
    go(ctx)?;
    assert!(shell.finish()?.status.success());
    for _ in 0..100 {
        std::fs::write("/proc/sys/kernel/ns_last_pid", (id - 1).to_string())?;
        let again = ctx.dd(1000, 1).start()?;
        let same = again.pid().as_raw() == id;
        assert!(again.finish()?.status.success());
        if same {
            let trace = end(tracer)?;
            trace.sound()?;
            assert_eq!(trace.events().count(), 10, "the next process with the id {id} was traced");
            other.signal(Signal::SIGKILL)?;
            return Ok(());
        }
    }
    fail!("the id {id} was not given out again");
}

/// Nothing more can come: the run ends by itself, but not before the children have.
fn the_end_of_the_last_process(ctx: &Context) -> Outcome {
    let dd = |count: u32| format!("dd if=/dev/zero of=/dev/null bs=1 count={count} status=none");
    for command in ["run", "stat"] {
        let _ = std::fs::remove_file(ctx.scratch.join("go"));
        let shell = waiting(ctx, &format!("(sleep 1; {}) & {}", dd(20), dd(10)))?;
        let id = shell.pid().to_string();
        let words = [command, "-f", "json", "-v", "-p", &id, "s:write{count}/comm==\"dd\"/"];
        let mut tracer = ctx.tracer(words).start()?;
        tracer.until("the probe", |job| job.stderr().contains("s:write"))?;
        std::thread::sleep(std::time::Duration::from_millis(500));
        go(ctx)?;
        let ran = tracer.finish()?;
        assert!(ran.code() == 0 && ran.stderr.contains("the last process of -p has ended"), "{ran}");
        assert!(ran.stdout.contains("\"balanced\":true"), "{ran}");
        let events = ran.stdout.lines().filter(|line| line.contains("\"event\":\"write\"")).count();
        let counted = ran.stdout.contains("\"count\":30,");
        assert!(if command == "run" { events == 30 } else { counted }, "{ran}");
        assert!(shell.finish()?.status.success());
    }
    Ok(())
}

fn names(ctx: &Context) -> Outcome {
    let paths = ["glob-abc", "glob-abd", "glob-xyz", "glob"].map(|name| ctx.renamed("dd", name));
    let paths: Vec<String> = paths.into_iter().collect::<Result<_>>()?;
    let cases: [(&str, &[&str]); 5] = [
        ("glob-abc", &["glob-abc"]),
        ("glob-a*", &["glob-abc", "glob-abd"]),
        ("?lob-?b?", &["glob-abc", "glob-abd"]),
        ("glob*", &["glob", "glob-abc", "glob-abd", "glob-xyz"]),
        ("*-*z", &["glob-xyz"]),
    ];
    for (glob, wanted) in cases {
        let tracer = traced(ctx, &["--comm", glob, "s:write"])?;
        paths.iter().try_for_each(|path| writes(ctx, path, 10, &[]))?;
        let trace = end(tracer)?;
        let mut names: Vec<&str> = trace.events().map(|event| &*event.comm).collect();
        names.retain(|name| name.starts_with("glob"));
        assert_eq!(names.len(), 10 * wanted.len(), "{glob}");
        names.sort_unstable();
        names.dedup();
        assert_eq!(names, wanted, "{glob}");
    }
    Ok(())
}

fn users(ctx: &Context) -> Outcome {
    let dd = ctx.renamed("dd", "dd-users")?;
    for user in ["nobody", "65534"] {
        let tracer = traced(ctx, &["-u", user, "--comm", "dd*", "s:write"])?;
        writes(ctx, &dd, 50, &[])?;
        writes(ctx, "/bin/dd", 20, &["setpriv", "--reuid=65534"])?;
        let trace = end(tracer)?;
        trace.sound()?;
        assert_eq!(trace.events().count(), 20);
        assert!(trace.events().all(|event| event.uid == 65534));
    }
    Ok(())
}

fn cgroups(ctx: &Context) -> Outcome {
    let group = "/sys/fs/cgroup/ours";
    std::fs::create_dir_all(format!("{group}/below"))?;
    let tracer = traced(ctx, &["--cgroup", group, "s:write"])?;
    let dd = |count: u32| format!("exec dd if=/dev/zero of=/dev/null bs=1 count={count} status=none");
    ctx.dd(1000, 1).succeed()?;
    for (at, count) in [("ours", 10), ("ours/below", 20)] {
        let script = format!("echo $$ > /sys/fs/cgroup/{at}/cgroup.procs; {}", dd(count));
        ctx.job("sh", ["-c", &script]).succeed()?;
    }
    let trace = end(tracer)?;
    trace.sound()?;
    assert_eq!(trace.events().filter(|event| event.comm == "dd").count(), 30);
    assert!(trace.events().all(|event| event.comm != "dd" || event.arg("count") == 1));
    Ok(())
}

fn cpus(ctx: &Context) -> Outcome {
    let dd = ctx.renamed("dd", "dd-cpus")?;
    for cpu in [0, 1] {
        let tracer = traced(ctx, &["-C", &cpu.to_string(), "--comm", "dd-cpus", "s:write"])?;
        writes(ctx, &dd, 30, &["taskset", "-c", "0"])?;
        writes(ctx, &dd, 40, &["taskset", "-c", "1"])?;
        let trace = end(tracer)?;
        trace.sound()?;
        assert_eq!(trace.events().count(), [30, 40][cpu as usize]);
        assert!(trace.events().all(|event| event.cpu == cpu));
    }
    Ok(())
}

fn the_tracer_itself(ctx: &Context) -> Outcome {
    for (more, seen) in [(&[][..], false), (&["--include-self"], true)] {
        let words = [&["--duration", "1s", "--comm", "tracer*", "s:write"], more].concat();
        let tracer = traced(ctx, &words)?;
        let me = tracer.pid().as_raw().cast_unsigned();
        let ran = tracer.finish()?;
        let trace = Trace::read(&ran.stdout)?;
        trace.sound()?;
        assert_eq!(trace.events().any(|event| event.pid == me), seen, "{ran}");
    }
    Ok(())
}

/// The ids that -p takes and that events show are those of the namespace that the tracer is in.
fn a_pid_namespace(ctx: &Context) -> Outcome {
    let dd = |count: u32| format!("dd if=/dev/zero of=/dev/null bs=1 count={count} status=none");
    let script = format!(
        "sh -c 'while ! [ -e go ]; do sleep 0.05; done; {}; {}; true' & echo $! > id;
         $TRACER run -f json -p $! s:write > events & tracer=$!;
         while ! grep -q header events; do sleep 0.05; done; {}; touch go; wait %1; kill -TERM $tracer; wait $tracer",
        dd(10),
        dd(20),
        dd(1000)
    );
    let words = ["-p", "-f", "--mount-proc", "sh", "-c", &script];
    let job = ctx.job("unshare", words).with(|command| {
        command.current_dir(&ctx.scratch).env("TRACER", ctx.tracer_path());
    });
    let ran = job.run()?;
    assert_eq!(ran.code(), 0, "{ran}");
    let id: u32 = std::fs::read_to_string(ctx.scratch.join("id"))?.trim().parse()?;
    let trace = Trace::read(&std::fs::read_to_string(ctx.scratch.join("events"))?)?;
    trace.sound()?;
    assert_eq!(trace.events().count(), 30, "{ran}");
    // The shell is number 2 or so there; its children come after it.
    assert!(trace.events().all(|event| event.pid > id && event.pid < id + 1000), "{id}");
    assert!(id < 100, "{id}");
    Ok(())
}
