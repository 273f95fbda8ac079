//! Tests: what cannot be is refused at its character, with the way out.

use super::*;
use crate::ErrorKind;

/// The message, with the column of its caret in the text.
fn refusal(text: &str) -> (String, usize) {
    let error = match text.parse::<Spec>() {
        Ok(spec) => panic!("'{text}' was read as {spec:?}"),
        Err(error) => error,
    };
    assert_eq!(error.kind(), ErrorKind::Usage);
    let message = error.to_string();
    let caret = message.lines().last().and_then(|line| line.split('^').next()).map_or(0, |room| room.len());
    (message, caret - 2)
}

#[test]
fn a_refusal_is_drawn() {
    let (message, _) = refusal("k:vfs_read/pid=42/");
    assert_eq!(
        message,
        "spec 'k:vfs_read/pid=42/': expected an operator\n  k:vfs_read/pid=42/\n                ^ '==' compares"
    );
}

/// `‸` stands before the character that is refused; then a part of what is said.
#[test]
fn refusals_point_at_the_character() {
    let mut wrong = String::new();
    for (marked, words) in [
        // Providers and targets.
        ("‸", "an empty spec"),
        ("s:‸", "missing"),
        ("k:‸/pid == 1/", "missing"),
        ("‸x:write", "'x' is no provider"),
        ("‸kprob:f", "did you mean kprobe (k)?"),
        ("‸kfunc:f", "did you mean fentry (f)?"),
        ("‸libc.so:malloc", "u:libc.so:SYMBOL"),
        ("‸/bin/bash:readline", "u:PATH:SYMBOL"),
        ("t:sched_switch‸", "t:CATEGORY:NAME"),
        ("t:sched:‸", "t:CATEGORY:NAME"),
        ("u:bash‸", "PATH:SYMBOL"),
        ("u:/bin/bash:‸", "PATH:SYMBOL"),
        ("u:/bin/bash:a‸-b", "PATH:SYMBOL"),
        ("u:/My‸ App:f", r"'\ '"),
        ("u:/bin/bash‸{a}", "PATH:SYMBOL"),
        ("usdt:/a.so:n‸", "PATH:PROVIDER:NAME"),
        ("o:‸", "missing"),
        ("o:‸:p", "missing"),
        ("o:a.o:p‸/pid == 1/", "no predicate"),
        ("kr:f‸+4", "no meaning for kretprobe"),
        ("k:f*‸+4", "wildcards"),
        ("k:f+‸z", "no offset"),
        ("k:f+‸", "no offset"),
        ("k:f+‸99999999999999999999", "no offset"),
        ("‸1a=s:write", "no name"),
        ("k:a ‸b", "cannot stand in a name"),
        ("k:a‸-b", "'-' cannot stand in a name"),
        ("k:nf‸:f", "':' cannot stand in a name"),
        ("k:f{a}/pid/‸/tid/", "expected the end"),
        ("k:f/pid/‸x", "expected '{' or the end"),
        // Predicates.
        ("k:f/‸/", "expected a condition"),
        ("k:f/pid==1‸", "a '/' closes the predicate"),
        ("k:f/pid==1‸{a}", "a '/' closes the predicate before the field list"),
        ("k:f/pid ‸=~ \"a\"/", "'==' matches"),
        ("k:f/comm ‸~ \"a*\"/", "'==' matches"),
        ("k:f/pid == 1 ‸and uid == 2/", "'&&' means and"),
        ("k:f/pid ‸or uid/", "'||' means or"),
        ("k:f/a ‸| b/", "'||' means or"),
        ("k:f/a && ‸/", "expected a condition"),
        ("k:f/a &‸/", "expected a value"),
        ("k:f/a == 1 ‸== 2/", "one comparison"),
        ("k:f/a ‸+ 1 == 2/", "no arithmetic"),
        ("k:f/(a == 1‸/", "expected ')'"),
        ("k:f/a‸)/", "no '(' is open"),
        ("k:f/‸42 == pid/", "on the right"),
        ("k:f/‸$arg1 == 1/", "go by their names"),
        ("k:f/a == ‸/", "expected a value"),
        ("k:f/a == ‸\"x/", "closing \""),
        ("k:f/a == \"‸\\q\"/", "no escape"),
        ("k:f/a == \"‸\\xg0\"/", "hexadecimal"),
        ("k:f/a ‸< \"x\"/", "'==' or '!='"),
        ("k:f/a == ‸'ab'/", "one character"),
        ("k:f/a == 10‸x/", "'x' is no unit"),
        ("k:f/a == 1‸.5ms/", "whole number"),
        ("k:f/a == 01‸8/", "octal"),
        ("k:f/a == 0x‸/", "digits of base 16"),
        ("k:f/a == ‸18446744073709551616/", "64 bits"),
        ("k:f/a == ‸-9223372036854775809/", "64 bits"),
        ("k:f/a == ‸-5ms/", "from 0 on"),
        ("k:f/a in ‸1/", "parentheses"),
        ("k:f/a in (‸)/", "expected a value"),
        ("k:f/a in (1‸/", "',' or ')'"),
        ("k:f/!a ‸== 1/", "!(a …)"),
        ("k:f/a:x‸/", "expected an operator"),
        ("k:f/a:‸foo == 1/", "'foo' is no hint"),
        ("u:/a:b/c:f/pid‸=1/", "'==' compares"),
        // Fields.
        ("k:f{a‸", "a '}' closes the field list"),
        ("k:f{a ‸b}", "between fields"),
        ("k:f{a,‸}", "expected a field"),
        ("k:f{a:b:‸hex}", "did you mean x?"),
        ("k:f{a.b:‸ipv4}", "did you mean ip4?"),
        ("k:f{a.b:buf‸}", "buf[N]"),
        ("k:f{a.b:x‸[3]}", "takes no length"),
        ("k:f{a[‸b]}", "a constant"),
        ("k:f{a[1‸}", "expected ']'"),
        ("k:f{a.‸}", "name of a member"),
        ("k:f{‸str(arg0)}", "arg0:str"),
        ("k:f{‸foo(arg0)}", "path(…)"),
        ("k:f{*‸path(file)}", "points to nothing"),
        ("k:f{path(‸path(file))}", "a call within a call"),
        ("k:f{(struct foo *)‸}", "expected a parameter"),
        ("k:f{(*a)‸.b}", "followed by itself"),
    ] {
        let column = marked.chars().position(|c| c == '‸').unwrap();
        let text = marked.replace('‸', "");
        let (message, caret) = refusal(&text);
        if !message.contains(words) || caret != column {
            wrong += &format!("{marked}, {words}:\n{message}\n");
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

#[test]
fn lists_come_as_help() {
    let help = |text: &str| text.parse::<Spec>().unwrap_err().help().map(str::to_owned).unwrap();
    assert!(help("x:f").ends_with("syscall (s), usdt, object (o)"), "{}", help("x:f"));
    assert!(help("k:f{a.b:foo}").contains("be16"), "{}", help("k:f{a.b:foo}"));
    assert!(help("k:f{a.b:foo}").ends_with("buf[N] ubuf[N] ksym usym errno time"));
}

#[test]
fn nothing_is_unbounded() {
    let nested = |depth: usize| format!("k:f/{}a{}/", "(".repeat(depth), ")".repeat(depth));
    assert!(nested(32).parse::<Spec>().is_ok());
    let (message, caret) = refusal(&nested(33));
    assert!(message.contains("more than 32 deep"), "{message}");
    assert_eq!(caret, 4 + 32);
    assert!(refusal(&format!("k:f/{}a/", "!".repeat(60_000))).0.contains("more than 32 deep"));

    let long = format!("k:{}", "f".repeat(64 << 10));
    assert!(long.parse::<Spec>().unwrap_err().to_string().contains("65536 are the most"));
    // The message of a long one shows the surroundings only.
    let (message, _) = refusal(&format!("k:f/{}b=1/", "a && ".repeat(10_000)));
    assert!(message.len() < 400, "{message}");
    assert!(message.contains("…"));
}

#[test]
fn a_terminal_is_safe_from_messages() {
    let (message, caret) = refusal("k:f/a\x1b[2J\u{202e}\n= 1/");
    assert!(!message.contains(['\x1b', '\u{202e}']));
    assert_eq!(message.lines().count(), 3);
    assert_eq!(caret, 5);
    // Reasons quote what was typed: found by the fuzzer.
    for text in ["C\nC=", "a\nb:x", "k:f{x:\ny}", "k:f/x == \x1b[2J/"] {
        let Err(error) = text.parse::<Spec>() else { continue };
        let whole = format!("{error}{}", error.help().unwrap_or_default());
        assert!(error.to_string().lines().count() <= 3 && !whole.contains('\x1b'), "{whole}");
    }
}

/// Each would take minutes if the time were not linear.
#[test]
fn hostile_texts_are_quick() {
    let n = 60_000;
    let started = std::time::Instant::now();
    for (start, middle, end) in [
        ("u:/x", ":b/\"\\\"", ""),
        ("u:/x", ":b/", ""),
        ("usdt:/x", ":b", ""),
        ("u:/x", "\\", ""),
        ("k:f/", "a&&", ""),
        ("k:f/", "(a)||", "b/"),
        ("k:f/", "((a*)", ""),
        ("k:f/", "(a ", ""),
        ("k:f/a", "[0]", "/"),
        ("k:f{", "a:b:", ""),
        ("k:f{", "a,", "b}"),
        ("k:f{", "*", "a}"),
        ("k:f{(a", "*", ""),
        ("k:f/((a*)b", ".c", "/"),
        ("k:f/a in (", "1,", "2)/"),
        ("k:f/a == \"", "\\*", "\"/"),
        ("", "=", ""),
        ("", " ", ""),
        ("k:", "é", ""),
    ] {
        let text = format!("{start}{}{end}", middle.repeat(n / middle.len()));
        let _ = text.parse::<Spec>().map(|spec| spec.to_string());
    }
    assert!(started.elapsed().as_secs() < 20, "{:?}", started.elapsed());
}
