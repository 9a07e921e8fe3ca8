//! Time and memory over the number of resources: takes summaries, gives a picture as SVG. Pure; called by [`super::run`].

use anyhow::{Result, anyhow};
use plotters::prelude::*;

use super::report::Summary;

const SIZE: (u32, u32) = (960, 360);

/// A line of a chart: its name, its colour, and its value for each summary.
struct Line {
    name: &'static str,
    colour: RGBColor,
    value: fn(&Summary) -> f64,
}

const TIMES: [Line; 2] = [
    Line { name: "operator", colour: RGBColor(0, 84, 166), value: |it| it.operator_seconds },
    Line { name: "bare client", colour: RGBColor(150, 150, 150), value: |it| it.bare_seconds },
];
const MEMORY: [Line; 3] = [
    Line { name: "cold start", colour: RGBColor(0, 84, 166), value: |it| it.cold_start_megabytes },
    Line { name: "restart", colour: RGBColor(214, 96, 0), value: |it| it.restart_megabytes },
    Line { name: "must", colour: RGBColor(150, 150, 150), value: |it| it.most_megabytes },
];

/// Two charts side by side.
///
/// # Errors
/// When there is nothing to draw.
pub(super) fn draw(sizes: &[Summary]) -> Result<String> {
    let mut text = String::new();
    {
        let area = SVGBackend::with_string(&mut text, SIZE).into_drawing_area();
        area.fill(&WHITE)?;
        let (left, right) = area.split_horizontally(SIZE.0 / 2);
        chart(&left, "Cold start, seconds", &TIMES, sizes)?;
        chart(&right, "Peak memory, MB", &MEMORY, sizes)?;
        area.present()?;
    }
    Ok(text)
}

fn chart(
    area: &DrawingArea<SVGBackend<'_>, plotters::coord::Shift>,
    title: &str,
    lines: &[Line],
    sizes: &[Summary],
) -> Result<()> {
    let most = sizes.iter().map(|it| it.resources).max().ok_or_else(|| anyhow!("no sizes"))?;
    let highest = lines.iter().flat_map(|line| sizes.iter().map(line.value)).fold(0.0, f64::max);
    let mut chart = ChartBuilder::on(area)
        .caption(title, ("sans-serif", 18))
        .margin(12)
        .x_label_area_size(40)
        .y_label_area_size(50)
        .build_cartesian_2d(0..most, 0.0..highest * 1.1)?;
    chart.configure_mesh().x_desc("resources").light_line_style(TRANSPARENT).draw()?;
    for Line { name, colour, value } in lines {
        let points = || sizes.iter().map(|it| (it.resources, value(it)));
        chart
            .draw_series(LineSeries::new(points(), colour.stroke_width(2)))?
            .label(*name)
            .legend(|(x, y)| PathElement::new([(x, y), (x + 16, y)], colour.stroke_width(2)));
        chart.draw_series(points().map(|at| Circle::new(at, 3, colour.filled())))?;
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperLeft)
        .background_style(WHITE)
        .border_style(TRANSPARENT)
        .draw()?;
    Ok(())
}
