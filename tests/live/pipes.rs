//! What reads our output ends the run by going away, and is never traced itself.

use crate::context::Context;
use crate::job::Ran;
use crate::table::{Outcome, Test};
use crate::trace::Trace;
use anyhow::Result;
use std::io::Read;
use std::time::{Duration, Instant};

/// The tests of this file.
pub const TESTS: &[Test] = &[
    Test::new("pipes::head_takes_three_lines", head_takes_three_lines),
    Test::new("pipes::a_quiet_trace_ends_with_its_reader", a_quiet_trace_ends_with_its_reader),
    Test::new("pipes::a_slow_reader_finds_gaps_in_their_place", a_slow_reader_finds_gaps_in_their_place),
    Test::new("pipes::a_slow_reader_by_each_rule", a_slow_reader_by_each_rule),
    Test::new("pipes::tee_does_not_feed_itself", tee_does_not_feed_itself),
    Test::new("pipes::nor_do_two_readers_in_a_row", nor_do_two_readers_in_a_row),
    Test::new("pipes::nor_does_a_terminal", nor_does_a_terminal),
    Test::new("pipes::a_command_beside_its_reader", a_command_beside_its_reader),
];

/// A name for a program of this test's own: others run at the same time.
fn our(program: &str) -> String {
    format!("{program}-{}", std::process::id())
}

/// Runs a script in which `$TRACER` is the tracer, under a name of this test's own.
fn script(ctx: &Context, text: &str) -> Result<Ran> {
    let path = ctx.tracer_path().display().to_string();
    let tracer = ctx.renamed(&path, &our("tracer"))?;
    let job = ctx.job("sh", ["-c", text]).with(|command| {
        command.env("TRACER", tracer).current_dir(&ctx.scratch);
    });
    job.seconds(100).run()
}

fn head_takes_three_lines(ctx: &Context) -> Outcome {
    let load = ctx.dd(u64::from(u32::MAX), 1).start()?;
    let ran = script(ctx, "{ $TRACER run s:write; echo status $? >&2; } | head -3")?;
    drop(load);
    assert_eq!(ran.stdout.lines().count(), 3, "{ran}");
    assert!(ran.stderr.ends_with("status 0\n"), "{ran}");
    // How it is attached, and nothing else.
    assert!(ran.stderr.lines().count() == 2 && ran.stderr.starts_with("s:write: "), "{ran}");
    Ok(())
}

fn a_quiet_trace_ends_with_its_reader(ctx: &Context) -> Outcome {
    let begin = Instant::now();
    let ran = script(ctx, "{ $TRACER run --comm nobody-has-it s:write; echo status $? >&2; } | sleep 3")?;
    println!("{:?}", begin.elapsed());
    assert!(begin.elapsed() < Duration::from_secs(20), "{:?}", begin.elapsed());
    assert!(ran.stderr.ends_with("status 0\n") && ran.stderr.lines().count() == 2, "{ran}");
    Ok(())
}

/// A reader that takes less than comes: events are dropped again and again, each time told where.
fn a_slow_reader_finds_gaps_in_their_place(ctx: &Context) -> Outcome {
    let (mut reader, writer) = std::io::pipe()?;
    let dd = ctx.renamed("dd", "dd-slow")?;
    let count = "count=4000000000";
    let load = ctx.job(&dd, ["if=/dev/zero", "of=/dev/null", "bs=1", count, "status=none"]).start()?;
    let words = ["run", "-f", "json", "--duration", "3s", "--comm", "dd-slow", "s:write"];
    let tracer = ctx.tracer(words).stdout(writer).start()?;
    let (mut text, mut part) = (Vec::new(), vec![0; 64 << 10]);
    loop {
        match reader.read(&mut part)? {
            0 => break,
            n => text.extend_from_slice(&part[..n]),
        }
        std::thread::sleep(Duration::from_millis(8));
    }
    let ran = tracer.finish()?;
    drop(load);
    assert_eq!(ran.code(), 0, "{ran}");
    let trace = Trace::read(std::str::from_utf8(&text)?)?;
    trace.sound()?;
    let dropped = trace.gaps().filter(|gap| gap.cause == "dropped").count();
    println!("{} events, {dropped} gaps of dropped ones", trace.events().count());
    Ok(())
}

/// With `block` nothing of ours is dropped: what comes meanwhile is lost in the rings. With a sample lines go on coming.
fn a_slow_reader_by_each_rule(ctx: &Context) -> Outcome {
    let dd = ctx.renamed("dd", "dd-rule")?;
    let words = ["if=/dev/zero", "of=/dev/null", "bs=1", "count=4000000000", "status=none"];
    for rule in ["block", "sample=10"] {
        let (mut reader, writer) = std::io::pipe()?;
        let load = ctx.job(&dd, words).start()?;
        let spec = "s:write/comm==\"dd-rule\"/";
        let words = ["run", "-f", "raw", "-m", "64K", "--on-full", rule, "--duration", "2s", spec];
        let tracer = ctx.tracer(words).stdout(writer).start()?;
        let mut part = vec![0; 64 << 10];
        while reader.read(&mut part)? > 0 {
            std::thread::sleep(Duration::from_millis(8));
        }
        let ran = tracer.finish()?;
        drop(load);
        assert_eq!(ran.code(), 0, "{ran}");
        println!("{rule}: {ran}");
        let told = ran.stderr.lines().find(|line| line.contains("dropped"));
        match rule {
            "block" => {
                assert!(told.is_none_or(|line| line.contains("dropped 0 (queue full, block)")), "{ran}")
            }
            _ => assert!(told.is_none_or(|line| line.contains("(queue full, sample=10)")), "{ran}"),
        }
        assert!(ran.stderr.contains("balanced: yes"), "{ran}");
    }
    for words in
        [&["--on-full", "drop-old"][..], &["--on-full", "block", "-f", "folded"], &["--on-full", "some"]]
    {
        let ran = ctx.tracer(["run"].iter().chain(words)).run()?;
        assert_eq!(ran.code(), 2, "{ran}");
    }
    Ok(())
}

/// What the file holds: events of neither the tracer nor any of its readers.
fn none_of_ours(ctx: &Context, file: &str, ran: &Ran) -> Outcome {
    let text = std::fs::read_to_string(ctx.scratch.join(file))?;
    let trace = Trace::read(text.trim_end_matches('\r'))?;
    trace.balanced()?;
    let mark = our("");
    let ours = trace.events().find(|event| event.comm.ends_with(&mark));
    assert!(ours.is_none(), "{ours:?} of {}\n{ran}", trace.events().count());
    // The test's own load shows that there was something to see.
    assert!(trace.events().any(|event| event.comm == "dd-load"), "{ran}");
    Ok(())
}

/// A writer that writes ten times a second, so that readers have something to pass on.
fn load(ctx: &Context) -> Result<crate::job::Running> {
    let dd = ctx.renamed("dd", "dd-load")?;
    let turn = format!("while :; do {dd} if=/dev/zero of=/dev/null count=5 status=none; sleep 0.1; done");
    ctx.job("sh", ["-c", &turn]).seconds(100).start()
}

fn tee_does_not_feed_itself(ctx: &Context) -> Outcome {
    let load = load(ctx)?;
    let tee = ctx.renamed("tee", &our("tee"))?;
    let ran = script(ctx, &format!("$TRACER run -f json --duration 3s s:write | {tee} file > /dev/null"))?;
    drop(load);
    none_of_ours(ctx, "file", &ran)
}

fn nor_do_two_readers_in_a_row(ctx: &Context) -> Outcome {
    let load = load(ctx)?;
    let (tee, cat) = (ctx.renamed("tee", &our("tee"))?, ctx.renamed("cat", &our("cat"))?);
    let ran =
        script(ctx, &format!("$TRACER run -f json --duration 3s s:write | {tee} file | {cat} > other"))?;
    drop(load);
    none_of_ours(ctx, "file", &ran)?;
    none_of_ours(ctx, "other", &ran)
}

/// Under script(1), which reads the terminal that we write to.
fn nor_does_a_terminal(ctx: &Context) -> Outcome {
    let load = load(ctx)?;
    let pty = ctx.renamed("script", &our("script"))?;
    // What goes to the terminal is read by script, which writes it to its own output.
    let ran = script(
        ctx,
        &format!(
            "{pty} -qec \"$TRACER run -f json --duration 3s s:write 2>err | cat > file\" /dev/null > typed; {pty} -qec \"$TRACER run -f json --duration 3s s:write 2>err\" /dev/null > other"
        ),
    )?;
    drop(load);
    none_of_ours(ctx, "file", &ran)?;
    none_of_ours(ctx, "other", &ran)
}

/// The command has our process group and our terminal, and is traced all the same.
fn a_command_beside_its_reader(ctx: &Context) -> Outcome {
    let tee = ctx.renamed("tee", &our("tee"))?;
    let dd = "dd if=/dev/zero of=/dev/null bs=1 count=50 status=none";
    let ran =
        script(ctx, &format!("$TRACER run -f json s:write -- sh -c '{dd}; {dd}' | {tee} file > /dev/null"))?;
    let trace = Trace::read(&std::fs::read_to_string(ctx.scratch.join("file"))?)?;
    trace.sound()?;
    assert_eq!(trace.events().count(), 100, "{ran}");
    assert!(trace.events().all(|event| event.comm == "dd"), "{ran}");
    Ok(())
}
