//! What was measured, drawn: throughput, cost and age over each setting that varies and is a number.

use std::path::Path;

use plotters::prelude::*;
use tracer::{
    Error, ErrorKind, Result,
    bench::{Case, Outcome},
};

use super::{
    label::{self, Axis},
    table,
};

const WIDTH: u32 = 640;
const HEIGHT: u32 = 400;

/// What is drawn upwards: its name, and its value.
type Measure = (&'static str, fn(&Outcome) -> f64);

const MEASURES: [Measure; 4] = [
    ("events received a second", Outcome::rate),
    ("ns a call or event", table::cost),
    ("lost, %", |o| 100.0 * o.median(|r| Some(r.loss()))),
    ("age, p99, us", |o| o.median(|r| r.age.map(|age| age.p99 as f64)) / 1000.0),
];

/// A line: its name, and its points.
type Line = (String, Vec<(f64, f64)>);

/// The settings that there are to draw over.
fn axes<'a>(cases: impl Iterator<Item = &'a Case> + Clone) -> Vec<&'static Axis> {
    let numbered = |axis: &&Axis| cases.clone().any(|case| (axis.number)(case).is_some());
    label::varied(cases.clone()).into_iter().filter(numbered).collect()
}

/// Whether there will be something to draw.
pub fn check(cases: &[Case]) -> Result<()> {
    match axes(cases.iter()).is_empty() {
        false => Ok(()),
        true => Err(Error::usage("--plot needs a setting that varies and is a number").with_help(
            "for example --payload 16,64,256,1024, -m 64K,256K,1M or --workload paced --rate 1000,20000",
        )),
    }
}

/// Draws a grid: a column for each setting, a row for each measure.
pub fn draw(path: &Path, outcomes: &[Outcome]) -> Result<()> {
    let name = path.display().to_string();
    let axes = axes(outcomes.iter().map(|o| &o.case));
    let measures: Vec<&Measure> =
        MEASURES.iter().filter(|(_, of)| outcomes.iter().any(|o| of(o).is_finite())).collect();
    let size = (WIDTH * axes.len() as u32, HEIGHT * measures.len() as u32);
    let failed = |e: &dyn std::fmt::Display| Error::new(ErrorKind::Sink, format!("drawing {name}: {e}"));
    let mut text = String::new();
    {
        let area = SVGBackend::with_string(&mut text, size).into_drawing_area();
        area.fill(&WHITE).map_err(|e| failed(&e))?;
        let cells = area.split_evenly((measures.len(), axes.len()));
        for (cell, at) in cells.iter().zip(0..) {
            let (measure, axis) = (measures[at / axes.len()], axes[at % axes.len()]);
            chart(cell, axis, measure, &lines(axis, measure, outcomes)).map_err(|e| failed(&e))?;
        }
        area.present().map_err(|e| failed(&e))?;
    }
    std::fs::write(path, text).map_err(|e| Error::caused(ErrorKind::Sink, format!("writing {name}"), e))
}

/// The outcomes that differ in this setting alone are a line.
fn lines(axis: &Axis, measure: &Measure, outcomes: &[Outcome]) -> Vec<Line> {
    let others: Vec<&Axis> = label::varied(outcomes.iter().map(|o| &o.case))
        .into_iter()
        .filter(|other| other.name != axis.name)
        .collect();
    let mut lines: Vec<Line> = Vec::new();
    for o in outcomes {
        let Some(x) = (axis.number)(&o.case) else { continue };
        let y = measure.1(o);
        if !y.is_finite() {
            continue;
        }
        let words: Vec<_> = others.iter().map(|a| format!("{} {}", a.name, (a.text)(&o.case))).collect();
        let name = words.join(", ");
        match lines.iter_mut().find(|(known, _)| *known == name) {
            Some((_, points)) => points.push((x, y)),
            None => lines.push((name, vec![(x, y)])),
        }
    }
    lines.iter_mut().for_each(|(_, points)| points.sort_by(|a, b| a.0.total_cmp(&b.0)));
    lines
}

fn chart(
    cell: &DrawingArea<SVGBackend<'_>, plotters::coord::Shift>,
    axis: &Axis,
    measure: &Measure,
    lines: &[Line],
) -> std::result::Result<(), Box<dyn std::error::Error>> {
    let points = || lines.iter().flat_map(|(_, points)| points);
    let most = points().map(|p| p.1).fold(0.0, f64::max);
    let (low, high) = points().fold((f64::MAX, f64::MIN), |(low, high), p| (low.min(p.0), high.max(p.0)));
    if low > high {
        return Ok(());
    }
    let mut chart = ChartBuilder::on(cell)
        .margin(12)
        .caption(measure.0, ("sans-serif", 18))
        .x_label_area_size(36)
        .y_label_area_size(80)
        .build_cartesian_2d((low..high.max(low + 1.0)).log_scale(), 0.0..(most * 1.1).max(1.0))?;
    chart.configure_mesh().x_desc(axis.name).draw()?;
    for (i, (name, points)) in lines.iter().enumerate() {
        let color = Palette99::pick(i).stroke_width(2);
        let drawn = chart.draw_series(LineSeries::new(points.iter().copied(), color).point_size(3))?;
        if lines.len() > 1 {
            drawn.label(name).legend(move |(x, y)| PathElement::new([(x, y), (x + 16, y)], color));
        }
    }
    if lines.len() > 1 {
        chart.configure_series_labels().background_style(WHITE.mix(0.8)).border_style(BLACK).draw()?;
    }
    Ok(())
}
