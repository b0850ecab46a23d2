use super::*;
use crate::report::HtmlReport;
use crate::stats::Interval;
use proptest::prelude::*;

const NASTY: &str = "</svg><script>alert('x')</script>&\"\u{1b}";

fn bars() -> BarChart {
    let bar = |v: f64| Bar::with_whisker(v, v * 0.9, v * 1.1);
    BarChart::new("rates", Axis::new("MiB/s"), ["Baseline", "SB", "bio"])
        .series("read", [bar(10.0), bar(20.0), bar(40.0)])
        .series("readv", [Some(bar(15.0)), None, Some(Bar::new(80.0))])
}

fn lines(style: Style) -> LineChart {
    let axis = Axis::new("latency").scale(Scale::Log10).format(Format::Nanoseconds);
    LineChart::new("latency over depth", Axis::new("depth").scale(Scale::Log2), axis).series(
        "uring",
        style,
        [(1.0, 900.0), (2.0, 1100.0), (4.0, 1e6)],
    )
}

/// Checks that the elements of an SVG are closed in order and gives how often each occurs.
fn elements(svg: &str) -> std::collections::BTreeMap<String, usize> {
    let mut open: Vec<String> = Vec::new();
    let mut counts = std::collections::BTreeMap::new();
    for tag in svg.split('<').skip(1) {
        let (tag, _) = tag.split_once('>').expect("every tag ends");
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop().as_deref(), Some(name));
            continue;
        }
        let name = tag.split([' ', '/']).next().unwrap().to_owned();
        *counts.entry(name.clone()).or_default() += 1;
        if !tag.ends_with('/') {
            open.push(name);
        }
    }
    assert_eq!(open, Vec::<String>::new());
    counts
}

/// The numbers of an attribute, over all elements.
fn attribute(svg: &str, name: &str) -> Vec<f64> {
    let start = format!(" {name}=\"");
    svg.split(&start).skip(1).map(|rest| rest.split('"').next().unwrap().parse().unwrap()).collect()
}

#[test]
fn cells_of_a_heat_map_are_shaded_by_their_values() {
    let columns = vec![vec![1.0, 1.0, 0.0], vec![0.0, 1000.0, 0.0], vec![0.0; 3]];
    let axes = (Axis::new("time").format(Format::Nanoseconds), Axis::new("place").format(Format::Bytes));
    let svg = HeatChart::new("heat", axes.clone(), (1e6, 4096.0), columns).svg(720);
    // Equal cells above each other are one shape.
    assert_eq!(elements(&svg)["rect"], 2);
    assert!(svg.contains("f0 h1") && svg.contains("f0 h8"), "{svg}");
    let heights = attribute(&svg, "height");
    assert!((heights[1] - 2.0 * heights[2]).abs() < 0.2, "{heights:?}");
    let empty = HeatChart::new(NASTY, axes, (1.0, 1.0), Vec::new()).svg(200);
    assert!(!elements(&empty).contains_key("rect") && !empty.contains("NaN"));
}

#[test]
fn bars_are_as_long_as_their_values() {
    let svg = bars().svg(720);
    // Two swatches of the legend, five bars.
    assert_eq!(elements(&svg)["rect"], 7);
    let heights = &attribute(&svg, "height")[3..];
    let unit = heights[0] / 10.0;
    for (height, value) in heights.iter().zip([10.0, 15.0, 20.0, 40.0, 80.0]) {
        assert!((height - unit * value).abs() < 1.0, "{heights:?}");
    }
    assert!(svg.contains("<title>Baseline, read: 10 (9 to 11)</title>"));
    assert!(!svg.contains("no place"));
}

#[test]
fn negative_bars_hang_down() {
    let chart = BarChart::new("", Axis::new("%"), ["a", "b"]).series("", [Bar::new(-5.0), Bar::new(5.0)]);
    let svg = chart.svg(400);
    let (tops, heights) = (attribute(&svg, "y"), attribute(&svg, "height"));
    assert_eq!(heights[1], heights[2]);
    assert!(tops.len() > 2 && elements(&svg)["rect"] == 2);
}

#[test]
fn categories_are_wrapped_before_they_are_slanted() {
    let chart = |name: &str, width| {
        BarChart::new("", Axis::new(""), [name, "b", "c"]).series("", [Bar::new(1.0)]).svg(width)
    };
    let svg = chart("single bounce buffers", 400);
    assert!(svg.contains(">single bounce</text>") && svg.contains(">buffers</text>"), "{svg}");
    assert!(chart("single bounce buffers", 900).contains(">single bounce buffers</text>"));
    let svg = chart("single-bounce-buffers", 300);
    assert!(svg.contains("rotate(-40"));
    assert!(svg.contains(">single-bounc…</text>"), "{svg}");
}

#[test]
fn bars_are_labelled_all_or_none() {
    let labels = |width| bars().svg(width).matches("class=\"v\"").count();
    assert_eq!((labels(720), labels(200)), (5, 5));
    let long = BarChart::new("", Axis::new(""), ["a", "b"]).series("", [Bar::new(1.0), Bar::new(1.23e-7)]);
    assert_eq!(long.svg(200).matches("class=\"v\"").count(), 2);
    let many = BarChart::new("", Axis::new(""), [""; 0]).series("", (0..30).map(|v| Bar::new(f64::from(v))));
    assert_eq!(many.svg(200).matches("class=\"v\"").count(), 0);
}

#[test]
fn lines_pass_through_their_points() {
    for style in [Style::Line, Style::Points, Style::Steps] {
        let svg = lines(style).svg(400);
        let counts = elements(&svg);
        assert_eq!(counts.get("polyline").copied().unwrap_or(0), usize::from(style != Style::Points));
        assert_eq!(counts["path"], 3, "a mark on each point");
        assert!(svg.contains("<title>uring: 1.10 us at 2</title>"), "{svg}");
        for label in [">1 us<", ">10 us<", ">1 ms<", ">4<"] {
            assert!(svg.contains(label), "{label} in {svg}");
        }
    }
}

#[test]
fn what_cannot_be_drawn_is_counted() {
    let chart = lines(Style::Line).series("bad", Style::Line, [(1.0, 0.0), (f64::NAN, 5.0), (8.0, 2000.0)]);
    assert!(chart.svg(720).contains(">2 values have no position on these axes<"));
    let chart = bars().series("bad", [Bar::new(f64::INFINITY)]);
    assert!(chart.svg(720).contains(">1 value has no position on these axes<"));
    let gap = Interval { low: 0.0, estimate: 1.0, high: 2.0 };
    let chart = IntervalChart::new("", Axis::new("").scale(Scale::Log10)).row("r", gap);
    assert!(chart.svg(720).contains(">1 value has no position on these axes<"));
}

#[test]
fn a_gap_interrupts_a_line() {
    let points = [(1.0, 1.0), (2.0, 2.0), (3.0, f64::NAN), (4.0, 1.0), (5.0, 2.0)];
    let chart = LineChart::new("", Axis::new(""), Axis::new("")).series("", Style::Line, points);
    assert_eq!(elements(&chart.svg(400))["polyline"], 2);
}

#[test]
fn intervals_lie_around_their_estimates() {
    let ratio = Interval { low: 1.1, estimate: 1.25, high: 1.3 };
    let chart = IntervalChart::new("ratio", Axis::new("ours / theirs")).row("depth 1", ratio).reference(1.0);
    let svg = chart.svg(400);
    assert!(svg.contains("<title>depth 1: 1.25 (1.10 to 1.30)</title>"));
    assert_eq!(svg.matches("class=\"r\"").count(), 1);
    elements(&svg);
}

#[test]
fn empty_charts_are_frames() {
    let no_names: [&str; 0] = [];
    elements(&BarChart::new("", Axis::new(""), no_names).svg(0));
    elements(&LineChart::new("", Axis::new(""), Axis::new("")).svg(0));
    elements(&IntervalChart::new("", Axis::new("")).svg(0));
}

#[test]
fn pages_need_nothing_and_let_nothing_through() {
    let chart = BarChart::new(NASTY, Axis::new(NASTY), [NASTY]).series(NASTY, [Bar::new(1.0)]);
    let mut page = HtmlReport::new(NASTY);
    page.heading(NASTY).subheading(NASTY).paragraph(NASTY).preformatted(NASTY).facts([(NASTY, NASTY)]);
    let html = page.chart(&chart, NASTY).finish();
    assert!(!html.contains("<script") && !html.contains('\u{1b}'));
    for outside in ["src=", "href=", "url(", "@import", "<link", "<script"] {
        assert!(!html.contains(outside), "{outside}");
    }
    // The name of the SVG namespace is no link.
    assert_eq!(html.matches("http").count(), 2);
    assert_eq!(html.matches("<svg class=").count(), 2);
    assert!(html.contains("prefers-color-scheme:dark"));
    let body = html.split_once("<body>").unwrap().1.split_once("</body>").unwrap().0;
    let counts = elements(body);
    assert_eq!((counts["figure"], counts["pre"], counts["dd"]), (1, 1, 1));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]
    #[test]
    fn any_data_gives_a_well_formed_plot_of_bounded_size(
        points in prop::collection::vec((any::<f64>(), any::<f64>()), 0..60),
        name: String,
        width in 0u32..2000,
        log: bool,
    ) {
        let axis = || Axis::new(name.clone()).scale(if log { Scale::Log10 } else { Scale::Linear });
        let chart = LineChart::new(name.clone(), axis(), axis())
            .series(name.clone(), Style::Line, points.clone()).series("b", Style::Points, points.clone());
        let bars = BarChart::new(name.clone(), axis(), [name.clone()])
            .series(name.clone(), points.iter().map(|p| Bar::with_whisker(p.0, p.1, p.0)));
        let rows = points.iter().take(5).map(|p| Interval { low: p.0, estimate: p.0, high: p.1 });
        let intervals = rows.fold(IntervalChart::new("", axis()), |c, row| c.row(name.clone(), row));
        for svg in [chart.svg(width), bars.svg(width), intervals.svg(width)] {
            elements(&svg);
            prop_assert!(!svg.contains("NaN") && !svg.contains("inf\"") && svg.len() < 200_000);
            let inside = |values: Vec<f64>| values.iter().all(|v| v.abs() < 10_000.0);
            prop_assert!(inside(attribute(&svg, "x1")) && inside(attribute(&svg, "y")));
        }
    }
}
