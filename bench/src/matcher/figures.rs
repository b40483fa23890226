//! The suite's figures: time per write against the number of queries, and the latencies at half load.

use std::path::Path;

use hdrhistogram::Histogram;
use plotters::prelude::*;

use super::Scale;

const SIZE: (u32, u32) = (720, 440);

/// Draws `time-per-write.svg` and `latency.svg`.
pub(super) fn draw(
    directory: &Path,
    scales: &[Scale],
    latencies: &Histogram<u64>,
) -> anyhow::Result<()> {
    std::fs::create_dir_all(directory)?;
    time_per_write(&directory.join("time-per-write.svg"), scales)?;
    latency(&directory.join("latency.svg"), latencies)
}

fn time_per_write(path: &Path, scales: &[Scale]) -> anyhow::Result<()> {
    let points: Vec<(f64, f64)> = scales
        .iter()
        .map(|s| (s.queries as f64, s.us_per_write))
        .collect();
    let most = points.iter().map(|(_, us)| *us).fold(0.0, f64::max);
    let root = SVGBackend::new(path, SIZE).into_drawing_area();
    root.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(&root)
        .caption(
            "Time per write, the same number of matches",
            ("sans-serif", 20),
        )
        .margin(12)
        .x_label_area_size(40)
        .y_label_area_size(60)
        .build_cartesian_2d((5_000.0..2_000_000.0).log_scale(), 0.0..most * 1.2)?;
    chart
        .configure_mesh()
        .x_desc("active queries")
        .y_desc("µs per write")
        .draw()?;
    chart.draw_series(LineSeries::new(points.iter().copied(), BLUE))?;
    chart.draw_series(points.iter().map(|at| Circle::new(*at, 3, BLUE.filled())))?;
    root.present()?;
    Ok(())
}

fn latency(path: &Path, latencies: &Histogram<u64>) -> anyhow::Result<()> {
    let quantiles = [0.0, 50.0, 75.0, 90.0, 95.0, 99.0, 99.5, 99.9, 99.99];
    let points: Vec<(f64, f64)> = (0..)
        .zip(quantiles)
        .map(|(at, q)| {
            (
                f64::from(at),
                latencies.value_at_quantile(q / 100.0) as f64 / 1e3,
            )
        })
        .collect();
    let most = points.iter().map(|(_, ms)| *ms).fold(0.001, f64::max);
    let root = SVGBackend::new(path, SIZE).into_drawing_area();
    root.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(&root)
        .caption(
            "Latency from the intended start, at half load",
            ("sans-serif", 20),
        )
        .margin(12)
        .x_label_area_size(40)
        .y_label_area_size(60)
        .build_cartesian_2d(0.0..8.0, 0.0..most * 1.2)?;
    let label = |at: &f64| {
        let index = (*at).round().clamp(0.0, 8.0);
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        let quantile = quantiles[index as usize];
        format!("{quantile} %")
    };
    chart
        .configure_mesh()
        .x_labels(9)
        .x_label_formatter(&label)
        .y_desc("ms")
        .draw()?;
    chart.draw_series(LineSeries::new(points.iter().copied(), BLUE))?;
    chart.draw_series(points.iter().map(|at| Circle::new(*at, 3, BLUE.filled())))?;
    root.present()?;
    Ok(())
}
