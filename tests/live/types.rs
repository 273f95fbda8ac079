//! Values by name: enums, flags, errors, modes, devices, socket addresses and times are what the workload did.

use std::os::unix::fs::MetadataExt as _;

use nix::sys::stat::{major, minor};

use crate::context::Context;
use crate::program::{self, CONNECTS, SLEEP};
use crate::table::{Outcome, Test};
use crate::trace::Trace;

/// The tests of this file.
pub const TESTS: &[Test] = &[
    Test::new("types::socket_addresses_by_their_family", socket_addresses),
    Test::new("types::a_time_that_a_pointer_leads_to", a_time_behind_a_pointer),
    Test::new("types::names_that_a_tracepoint_gives", names_of_a_tracepoint),
    Test::new("types::names_that_an_enum_gives", names_of_an_enum),
    Test::new("types::addresses_and_states_of_sockets", states_of_sockets),
    Test::new("types::errors_of_system_calls", errors_of_system_calls),
    Test::new("types::errors_of_functions", errors_of_functions).in_guests(),
    Test::new("types::modes_and_devices_of_files", modes_and_devices),
    Test::new("types::arrays_of_a_record", arrays_of_a_record),
    Test::new("types::numbers_by_hint", numbers_by_hint),
    Test::new("types::negative_numbers_in_predicates", negative_numbers),
    Test::new("types::names_in_predicates", names_in_predicates),
    Test::new("types::addresses_by_their_symbols", addresses_by_symbols),
];

/// Opens a file that is not there.
const MISSING: [&str; 3] = ["sh", "-c", "dd if=/none-such of=/dev/null 2>/dev/null; :"];

fn trace(ctx: &Context, specs: &[&str], command: &[&str]) -> anyhow::Result<Trace> {
    let words: Vec<&str> =
        ["run", "-f", "json"].iter().chain(specs).chain(&["--"]).chain(command).copied().collect();
    Trace::read(&ctx.tracer(words).succeed()?.stdout)
}

/// Traces this program while it connects and sleeps.
fn sockets(ctx: &Context, specs: &[&str]) -> anyhow::Result<Trace> {
    let me = std::env::current_exe()?.display().to_string();
    let command: Vec<&str> = [me.as_str()].into_iter().chain(program::args(&["sockets"])).collect();
    trace(ctx, specs, &command)
}

fn socket_addresses(ctx: &Context) -> Outcome {
    let seen = sockets(ctx, &["s:connect{uservaddr,addrlen}"])?;
    let mut events: Vec<_> = seen.events().collect();
    // A task may have moved to another CPU between two calls.
    events.sort_by_key(|event| event.time);
    let connected: Vec<&str> = events.iter().map(|event| event.text("uservaddr")).collect();
    assert_eq!(connected, CONNECTS);
    seen.sound()
}

fn a_time_behind_a_pointer(ctx: &Context) -> Outcome {
    let seen = sockets(ctx, &["s:clock_nanosleep{t:(struct __kernel_timespec *)rqtp}"])?;
    let slept: Vec<&str> = seen.events().map(|event| event.text("t")).collect();
    assert_eq!(slept, [format!("0.{:09}", SLEEP.as_nanos())]);
    seen.sound()
}

fn names_of_a_tracepoint(ctx: &Context) -> Outcome {
    let seen = trace(ctx, &["t:sched:sched_switch{prev_comm,prev_state}"], &["sleep", "0.02"])?;
    let mut slept = 0;
    for event in seen.events() {
        match (event.arg("prev_state"), event.shown("prev_state")) {
            (0, shown) => assert_eq!(shown, "R", "{event:?}"),
            (1, shown) => {
                assert_eq!(shown, "S", "{event:?}");
                slept += usize::from(event.text("prev_comm") == "sleep");
            }
            (_, shown) => assert!(!shown.is_empty(), "{event:?}"),
        }
    }
    assert!(slept > 0, "sleep(1) never slept");
    seen.sound()
}

fn names_of_an_enum(ctx: &Context) -> Outcome {
    // The print fmt names the enum's constants, whose values are in the BTF alone.
    let seen = sockets(ctx, &["t=t:timer:hrtimer_start{mode}", "rt=rt:hrtimer_start{mode}"])?;
    for (spec, name) in [("t", "REL"), ("rt", "HRTIMER_MODE_REL")] {
        let relative: Vec<&str> = (seen.events())
            .filter(|event| event.event == spec && event.arg("mode") == 1)
            .map(|event| event.shown("mode"))
            .collect();
        assert!(!relative.is_empty(), "{spec}: no timer was relative");
        assert!(relative.iter().all(|shown| *shown == name), "{spec}: {relative:?}");
    }
    seen.sound()
}

fn states_of_sockets(ctx: &Context) -> Outcome {
    let fields = "{family,protocol,a:daddr:ip4,b:daddr_v6:ip6,newstate,dport}";
    let seen = sockets(ctx, &[&format!("t:sock:inet_sock_set_state{fields}")])?;
    let first = seen.events().min_by_key(|event| event.time);
    let first = first.ok_or_else(|| anyhow::anyhow!("no socket changed its state"))?;
    assert_eq!((first.text("a"), first.text("b")), ("127.0.0.1", "::ffff:127.0.0.1"));
    assert_eq!((first.arg("family"), first.shown("family"), first.arg("dport")), (2, "AF_INET", 9));
    assert_eq!((first.shown("protocol"), first.shown("newstate")), ("IPPROTO_TCP", "TCP_SYN_SENT"));
    seen.sound()
}

fn errors_of_system_calls(ctx: &Context) -> Outcome {
    let specs = ["t:syscalls:sys_enter_openat{filename}", "t:syscalls:sys_exit_openat{ret}"];
    let seen = trace(ctx, &specs, &MISSING)?;
    let asked = seen.events().find(|event| event.text("filename") == "/none-such");
    let asked = asked.ok_or_else(|| anyhow::anyhow!("nobody opened the file that is not there"))?;
    let later = seen.events().filter(|e| e.event == "sys_exit_openat" && e.tid == asked.tid);
    let answer = later.filter(|e| e.time > asked.time).min_by_key(|e| e.time);
    let answer = answer.ok_or_else(|| anyhow::anyhow!("the call did not return"))?;
    assert_eq!((answer.arg("ret").cast_signed(), answer.shown("ret")), (-2, "-ENOENT"));
    for event in seen.events().filter(|e| e.event == "sys_exit_openat" && e.arg("ret") < 1024) {
        assert_eq!(event.shown("ret"), "", "a descriptor is no error: {event:?}");
    }
    seen.sound()
}

/// A function that gives an open file or an error as an address; Linux 7 has another name for it.
pub fn opener(ctx: &Context) -> &'static str {
    if ctx.version() >= (7, 0) { "kr:do_file_open{ret}" } else { "kr:do_filp_open{ret}" }
}

fn errors_of_functions(ctx: &Context) -> Outcome {
    // One gives a number, the other an address.
    for spec in ["kr:do_sys_openat2{ret}", opener(ctx)] {
        let seen = trace(ctx, &[spec], &MISSING)?;
        let mut missing = seen.events().filter(|event| event.arg("ret").cast_signed() == -2).peekable();
        assert!(missing.peek().is_some(), "{spec}: nothing was missing");
        for event in missing {
            assert_eq!(event.shown("ret"), "-ENOENT", "{spec}");
        }
        seen.sound()?;
    }
    Ok(())
}

/// An array whose length its record tells is as long as that, or as what was asked for.
fn arrays_of_a_record(ctx: &Context) -> Outcome {
    let me = std::env::current_exe()?.display().to_string();
    let command: Vec<&str> = [me.as_str()].into_iter().chain(program::args(&["calls", "1"])).collect();
    let exec = "t:sched:sched_process_exec{filename,all:filename:buf[1000],some:filename:buf[5]}";
    let seen = trace(ctx, &[exec, "t:raw_syscalls:sys_enter/id==1/{args}"], &command)?;
    let event = seen.events().find(|event| event.event == "sched_process_exec");
    let event = event.ok_or_else(|| anyhow::anyhow!("no exec was seen"))?;
    let hex = |text: &str| text.bytes().map(|b| format!("{b:02x}")).collect::<String>();
    assert_eq!(event.text("filename"), me);
    assert_eq!((event.text("all"), event.text("some")), (&*(hex(&me) + "00"), &*hex(&me[..5])));
    let calls: Vec<Vec<u64>> =
        seen.events().filter(|event| event.event == "sys_enter").map(|event| event.list("args")).collect();
    assert!(calls.iter().any(|args| args.len() == 6 && args[2] == 1), "a write of one byte: {calls:?}");
    seen.sound()
}

fn modes_and_devices(ctx: &Context) -> Outcome {
    let fields = "{m:bprm.file.f_inode.i_mode,d:bprm.file.f_inode.i_sb.s_dev}";
    let me = std::env::current_exe()?.display().to_string();
    let command: Vec<&str> = [me.as_str()].into_iter().chain(program::args(&["calls", "1"])).collect();
    let seen = trace(ctx, &[&format!("rt:sched_process_exec{fields}")], &command)?;
    let event = seen.events().next().ok_or_else(|| anyhow::anyhow!("no exec was seen"))?;
    let file = std::fs::metadata(&me)?;
    assert_eq!(event.shown("m"), format!("0{:o}", file.mode()));
    assert_eq!(event.shown("d"), format!("{}:{}", major(file.dev()), minor(file.dev())));
    seen.sound()
}

/// A negative number of less than eight bytes is one in a predicate too, wherever it comes from.
fn negative_numbers(ctx: &Context) -> Outcome {
    for spec in [
        "s:openat/dfd==-100 && dfd<0/{dfd}",
        "t:syscalls:sys_enter_openat/dfd==-100 && dfd<0/{dfd}",
        "s:openat/dfd:d==-100/{dfd}",
        "s:openat/dfd:s32==-100/{dfd}",
    ] {
        let seen = trace(ctx, &[spec], &MISSING)?;
        assert!(seen.events().next().is_some(), "{spec}");
        assert!(seen.events().all(|event| event.arg("dfd").cast_signed() == -100), "{spec}");
        seen.sound()?;
    }
    Ok(())
}

/// A predicate knows the names that a field's values have.
fn names_in_predicates(ctx: &Context) -> Outcome {
    let seen =
        trace(ctx, &["t:sched:sched_switch/prev_state==S || prev_state&D/{prev_state}"], &["sleep", "0.02"])?;
    assert!(seen.events().any(|event| event.shown("prev_state") == "S"));
    for event in seen.events() {
        assert!(event.arg("prev_state") == 1 || event.arg("prev_state") & 2 != 0, "{event:?}");
    }
    seen.sound()?;
    let seen = sockets(ctx, &["s:connect/uservaddr!=0 && addrlen==16/{uservaddr}"])?;
    assert_eq!(seen.events().map(|event| event.text("uservaddr")).collect::<Vec<_>>(), [CONNECTS[0]]);
    Ok(())
}

fn numbers_by_hint(ctx: &Context) -> Outcome {
    let dd = ["dd", "if=/dev/zero", "of=/dev/null", "bs=65", "count=3", "status=none"];
    let fields = "{o:count:o, c:count:c, n:count:time, b:count:be16, x:count:x8, s:count:s8, e:count:errno}";
    let seen = trace(ctx, &[&format!("s:write/count==65/{fields}")], &dd)?;
    assert_eq!(seen.events().count(), 3);
    for event in seen.events() {
        let shown = ["o", "c", "n", "e"].map(|name| (event.arg(name), event.shown(name)));
        assert_eq!(shown, [(65, "0101"), (65, "'A'"), (65, "0.000000065"), (65, "")]);
        assert_eq!((event.arg("b"), event.text("x"), event.arg("s")), (65 << 8, "0x41", 65));
    }
    seen.sound()
}

fn addresses_by_symbols(ctx: &Context) -> Outcome {
    let me = std::env::current_exe()?.display().to_string();
    let never = ctx.scratch.join("never").display().to_string();
    let handler = "h=s:rt_sigaction/sig==11/{h:(struct sigaction *)act.sa_handler:usym}";
    let specs = ["t:timer:hrtimer_start{function:ksym}", handler];
    let words: Vec<&str> = (["run", "-f", "json", "--duration", "700ms"].into_iter())
        .chain(specs)
        .chain(["--", &me])
        .chain(program::args(&["wait", &never, "1", "1"]))
        .collect();
    let seen = Trace::read(&ctx.tracer(words).succeed()?.stdout)?;
    let of = |event: &str, name: &str| -> Vec<String> {
        let all = seen.events().filter(|e| e.event == event && !e.faulty(name) && e.arg(name) > 1);
        all.map(|e| e.shown(name).to_owned()).collect()
    };
    // The threads sleep between looks, and Rust's runtime catches a stack that overflows.
    let timers = of("hrtimer_start", "function");
    assert!(timers.iter().any(|name| name == "hrtimer_wakeup"), "{timers:?}");
    let handlers = of("h", "h");
    assert!(!handlers.is_empty() && handlers.iter().all(|h| h.contains("signal_handler")), "{handlers:?}");
    seen.sound()
}
