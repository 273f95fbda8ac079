//! The text form, line by line.

use tracer::sink::{Encode, text};

use crate::sink_fixture::{event, raw};

#[test]
fn columns_are_those_of_perf_script() {
    let mut out = Vec::new();
    let raw = raw(5, 0, b"dd");
    text::Text::new(text::Options::default()).event(&event(1, 2_083_123_456_789, &raw), &mut out);
    assert_eq!(
        String::from_utf8(out).unwrap(),
        "              dd    1234/1235    [001]   2083.123456789: write: \
         fd=1 buf=0x7fffdeadbeef count=18446744073709551614 ret=-9 sync=true\n"
    );
}
