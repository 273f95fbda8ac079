//! Any text as a spec: refused, or written again as a text that says the same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tracer::probe::spec::{Expr, Field, Spec, unsupported};

fuzz_target!(|text: &str| {
    match text.parse::<Spec>() {
        Ok(spec) => {
            assert_eq!(spec.to_string().parse::<Spec>().expect("what is shown can be read"), spec);
            std::hint::black_box((spec.event_name(), unsupported(&spec)));
        }
        Err(error) => {
            // A line of its own for the reason, the text, and the caret, whatever the text holds.
            assert!(error.to_string().lines().count() <= 3);
        }
    }
    if let Ok(expr) = text.parse::<Expr>() {
        assert_eq!(expr.to_string().parse::<Expr>().expect("what is shown can be read"), expr);
    }
    if let Ok(field) = text.parse::<Field>() {
        assert_eq!(field.to_string().parse::<Field>().expect("what is shown can be read"), field);
    }
});
