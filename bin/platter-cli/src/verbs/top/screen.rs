//! The screen of `top`.

use super::sample::{Rates, Sample};
use super::{CLIENT_TITLES, DEVICE_TITLES, Sort, client_cells, device_cells, sort};
use crate::cli::{CliError, Context};
use clap::ValueEnum;
use platter_serve::control::Call;
use ratatui::Frame;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Style, Stylize};
use ratatui::widgets::{Paragraph, Row, Sparkline, Table};
use std::collections::{BTreeMap, VecDeque};
use std::io::IsTerminal;
use std::time::{Duration, Instant};

/// Readings that the sparkline shows.
const HISTORY: usize = 200;
/// How often to look for a signal.
const LOOK: Duration = Duration::from_millis(100);

/// What is shown.
struct Screen {
    rates: Rates,
    sort: Sort,
    reversed: bool,
    selected: usize,
    /// The I/O rate of each device, oldest first.
    history: BTreeMap<String, VecDeque<u64>>,
}

/// Shows rates until the user ends it.
pub(super) fn run(
    call: Call,
    before: Sample,
    interval: Duration,
    by: Sort,
    context: &Context,
) -> Result<(), CliError> {
    if !std::io::stdout().is_terminal() {
        return Err(CliError::usage("stdout is not a terminal; --once prints plain tables"));
    }
    let cannot = |error: std::io::Error| CliError::failed(format!("cannot use the terminal: {error}"));
    Context::at_end(Some(ratatui::restore));
    let mut terminal = ratatui::try_init().map_err(cannot)?;
    let result = show(&mut terminal, call, before, interval, by, context);
    ratatui::restore();
    Context::at_end(None);
    result
}

fn show(
    terminal: &mut ratatui::DefaultTerminal,
    mut call: Call,
    mut before: Sample,
    interval: Duration,
    by: Sort,
    context: &Context,
) -> Result<(), CliError> {
    let cannot = |error: std::io::Error| CliError::failed(format!("cannot use the terminal: {error}"));
    let mut screen = Screen::new(by);
    let mut next = Instant::now() + interval;
    loop {
        terminal.draw(|frame| screen.draw(frame)).map_err(cannot)?;
        loop {
            if context.is_interrupted() {
                return Err(context.interruption(""));
            }
            let left = next.saturating_duration_since(Instant::now());
            if event::poll(left.min(LOOK)).map_err(cannot)? {
                if screen.react(&event::read().map_err(cannot)?) {
                    return Ok(());
                }
                terminal.draw(|frame| screen.draw(frame)).map_err(cannot)?;
            } else if left <= LOOK {
                break;
            }
        }
        let now = Sample::take(&mut call)?;
        screen.renew(now.since(&before));
        before = now;
        next = Instant::now() + interval;
    }
}

impl Screen {
    fn new(sort: Sort) -> Screen {
        Screen { rates: Rates::default(), sort, reversed: false, selected: 0, history: BTreeMap::new() }
    }

    fn renew(&mut self, rates: Rates) {
        self.history.retain(|name, _| rates.devices.iter().any(|device| device.name == *name));
        for device in &rates.devices {
            let history = self.history.entry(device.name.clone()).or_default();
            if history.len() == HISTORY {
                history.pop_front();
            }
            history.push_back(device.iops as u64);
        }
        self.rates = rates;
        self.arrange();
    }

    fn arrange(&mut self) {
        sort(&mut self.rates, self.sort, self.reversed);
        self.selected = self.selected.min(self.rates.devices.len().saturating_sub(1));
    }

    /// Reacts to a key. Returns whether to end.
    fn react(&mut self, event: &Event) -> bool {
        let Event::Key(key) = event else { return false };
        if key.kind == KeyEventKind::Release {
            return false;
        }
        match key.code {
            KeyCode::Char('q') | KeyCode::Esc => return true,
            KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => return true,
            KeyCode::Char('s') => {
                let all = Sort::value_variants();
                let at = all.iter().position(|sort| *sort == self.sort).unwrap_or(0);
                self.sort = all[(at + 1) % all.len()];
            }
            KeyCode::Char('r') => self.reversed = !self.reversed,
            KeyCode::Up => self.selected = self.selected.saturating_sub(1),
            KeyCode::Down => self.selected += 1,
            _ => {}
        }
        self.arrange();
        false
    }

    fn draw(&self, frame: &mut Frame<'_>) {
        let devices = u16::try_from(self.rates.devices.len() + 1).unwrap_or(u16::MAX);
        let [head, above, spark, below] = Layout::vertical([
            Constraint::Length(1),
            Constraint::Length(devices.min(frame.area().height / 2)),
            Constraint::Length(4),
            Constraint::Min(1),
        ])
        .areas(frame.area());
        let order = if self.reversed { ", reversed" } else { "" };
        let sort =
            self.sort.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned());
        let health = if self.rates.health.is_empty() { "measuring" } else { &self.rates.health };
        let line = format!("health: {health}   sorted by {sort}{order}   q: end, s: sort, r: reverse");
        frame.render_widget(Paragraph::new(line).bold(), head);
        self.draw_devices(frame, above);
        self.draw_history(frame, spark);
        self.draw_clients(frame, below);
    }

    fn draw_devices(&self, frame: &mut Frame<'_>, area: Rect) {
        let widths = [16, 8, 10, 11, 9, 9, 6, 4].map(Constraint::Length);
        let rows = self.rates.devices.iter().enumerate().map(|(index, device)| {
            let style = if index == self.selected { Style::new().reversed() } else { Style::new() };
            Row::new(device_cells(device)).style(style)
        });
        frame.render_widget(Table::new(rows, widths).header(Row::new(DEVICE_TITLES).bold()), area);
    }

    fn draw_history(&self, frame: &mut Frame<'_>, area: Rect) {
        let Some(device) = self.rates.devices.get(self.selected) else { return };
        let [title, graph] = Layout::vertical([Constraint::Length(1), Constraint::Min(1)]).areas(area);
        let history: Vec<u64> = self.history.get(&device.name).into_iter().flatten().copied().collect();
        let most = history.iter().max().copied().unwrap_or(0);
        frame.render_widget(Paragraph::new(format!("IOPS of {}, at most {most}", device.name)), title);
        let shown = history.len().saturating_sub(usize::from(graph.width));
        frame.render_widget(Sparkline::default().data(&history[shown..]), graph);
    }

    fn draw_clients(&self, frame: &mut Frame<'_>, area: Rect) {
        let widths = [6, 12, 22, 8, 10, 11, 5].map(Constraint::Length);
        let rows = self.rates.clients.iter().map(|client| Row::new(client_cells(client)));
        frame.render_widget(Table::new(rows, widths).header(Row::new(CLIENT_TITLES).bold()), area);
    }
}

#[cfg(test)]
mod tests {
    use super::super::sample::{ClientRow, DeviceRow};
    use super::*;
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    fn device(name: &str, iops: f64) -> DeviceRow {
        DeviceRow {
            name: name.to_owned(),
            iops,
            read_mib_per_s: 1234.5,
            write_mib_per_s: 12345.6,
            p50_ns: Some(81_920),
            p99_ns: None,
            in_flight: 65_535,
            hits_percent: Some(100.0),
        }
    }

    fn lines(screen: &Screen) -> Vec<String> {
        let mut terminal = Terminal::new(TestBackend::new(80, 24)).unwrap();
        terminal.draw(|frame| screen.draw(frame)).unwrap();
        let buffer = terminal.backend().buffer();
        let line = |y: u16| (0..80).map(|x| buffer[(x, y)].symbol()).collect::<String>();
        (0..24).map(|y| line(y).trim_end().to_owned()).collect()
    }

    fn key(code: char) -> Event {
        Event::Key(KeyCode::Char(code).into())
    }

    #[test]
    fn everything_fits_in_eighty_columns() {
        let mut screen = Screen::new(Sort::Iops);
        assert!(lines(&screen)[0].contains("measuring"));
        let client = ClientRow {
            number: 12_345,
            device: "database".to_owned(),
            peer: "192.168.100.100:65535".to_owned(),
            iops: 123_456.0,
            read_mib_per_s: 1234.5,
            write_mib_per_s: 12345.6,
            in_flight: 128,
        };
        let devices = vec![device("a", 5.0), device("database", 1_234_567.0)];
        let rates = Rates { health: "ok".to_owned(), devices, clients: vec![client] };
        screen.renew(rates.clone());
        let shown = lines(&screen);
        for cell in ["database", "1234567", "1234.5", "12345.6", "65535", "100%", "-"] {
            assert!(shown[2].contains(cell), "{cell} is not in {}", shown[2]);
        }
        assert!(shown[3].starts_with("a "), "{shown:?}");
        assert!(shown[4].contains("IOPS of database, at most 1234567"), "{shown:?}");
        let below = shown.iter().find(|line| line.starts_with("12345 ")).unwrap();
        for cell in ["192.168.100.100:65535", "123456", "12345.6", "128"] {
            assert!(below.contains(cell), "{cell} is not in {below}");
        }
        assert!(!screen.react(&key('r')));
        assert!(lines(&screen)[2].starts_with("a "));
        for _ in 0..Sort::value_variants().len() {
            screen.react(&key('s'));
        }
        assert_eq!(screen.sort, Sort::Iops);
        screen.react(&Event::Key(KeyCode::Down.into()));
        screen.react(&Event::Key(KeyCode::Down.into()));
        assert_eq!(screen.selected, 1);
        screen.renew(Rates { devices: vec![device("a", 1.0)], ..rates });
        assert_eq!((screen.selected, screen.history.len()), (0, 1));
        assert!(screen.react(&key('q')));
    }
}
