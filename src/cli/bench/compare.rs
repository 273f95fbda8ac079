//! What was measured before, read back from `--json`, beside what is measured now.

use std::{
    io::{self, Write},
    path::Path,
};

use serde::Deserialize;
use tracer::{
    Error, ErrorKind, Result,
    bench::{Case, Outcome},
};

use super::label;

/// The cases of a file.
pub struct Base {
    name: String,
    cases: Vec<Measured>,
}

/// What of a line is compared.
#[derive(Deserialize)]
struct Measured {
    case: Case,
    rate: f64,
    loss: f64,
    traced_ns: f64,
    reader_cpu: f64,
    spread: f64,
}

impl Base {
    /// Reads it.
    pub fn read(path: &Path) -> Result<Base> {
        let name = path.display().to_string();
        let text = std::fs::read_to_string(path)
            .map_err(|e| Error::caused(ErrorKind::Usage, format!("reading {name}"), e))?;
        let line = |(i, line): (usize, &str)| {
            serde_json::from_str(line).map_err(|e| {
                let what = format!("{name}, line {}, is not what `tracer bench --json` prints", i + 1);
                Error::caused(ErrorKind::Usage, what, e)
            })
        };
        let cases = text.lines().enumerate().map(line).collect::<Result<Vec<Measured>>>()?;
        if cases.is_empty() {
            return Err(Error::usage(format!("{name} holds nothing to compare with")));
        }
        Ok(Base { name, cases })
    }

    /// The ratios of now to then.
    pub fn print(&self, out: &mut impl Write, outcomes: &[Outcome]) -> io::Result<()> {
        writeln!(out, "against {}: now / then", self.name)?;
        for o in outcomes {
            let case = label::whole(&o.case);
            let Some(then) = self.cases.iter().find(|m| m.case == o.case) else {
                writeln!(out, "  not there: {case}")?;
                continue;
            };
            let ns = o.median(|r| Some(r.traced_ns));
            let cpu = o.median(|r| Some(r.reader_cpu));
            writeln!(
                out,
                "  rate {:.2}, ns {:.2}, reader CPU {:.2}, lost {:.2} % / {:.2} %, spread {:.0} % / {:.0} %: {case}",
                o.rate() / then.rate,
                ns / then.traced_ns,
                cpu / then.reader_cpu,
                100.0 * o.median(|r| Some(r.loss())),
                100.0 * then.loss,
                100.0 * o.spread(),
                100.0 * then.spread,
            )?;
        }
        Ok(())
    }
}
