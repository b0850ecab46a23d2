use super::*;
use crate::merge::{Input, WINDOW};

fn convert(inputs: &[(&str, Format, &[u8])], to: Format) -> Result<(String, Loss), TraceError> {
    let inputs = inputs.iter().map(|(name, format, bytes)| Input::new(name, *format, *bytes)).collect();
    let mut conversion = Conversion::new(Merged::new(inputs, false)?, to, None)?;
    let mut out = Vec::new();
    while conversion.step(&mut out)? {}
    Ok((String::from_utf8_lossy(&out).into_owned(), conversion.loss().clone()))
}

fn lost(loss: &Loss) -> String {
    let rows: Vec<String> =
        loss.rows().filter(|row| row.2 > 0).map(|row| format!("{} {}", row.0, row.2)).collect();
    rows.join(", ")
}

const EVENTS: &str = "\
  8,0    0        1     0.000000000     5  Q   R 800 + 8 [a]
  8,0    1        1     0.000001000     6  Q   W 1600 + 8 [b]
  8,0    1        2     0.000002000     6  Q   W 1608 + 8 [b]
  8,0    0        2     0.000003000     5  D   R 800 + 8 [a]
  8,0    1        3     0.000004000     6  M   W 1608 + 8 [b]
  8,0    1        4     0.000050000     0  C   W 1600 + 16 [0]
  8,0    1        5     0.000090000     6  Q FWS 0 + 0 [b]
  8,0    0        3     0.001003000     0  C   R 800 + 8 [0]
";

#[test]
fn arrivals_get_the_time_to_the_completion_of_their_request() {
    let (csv, loss) = convert(&[("t", Format::Blkparse, EVENTS.as_bytes())], Format::Systor).unwrap();
    let lines: Vec<&str> = csv.lines().skip(1).collect();
    assert_eq!(
        lines,
        [
            "0.000000000,0.001003000,R,8388608,409600,4096",
            "0.000001000,0.000049000,W,8388608,819200,4096",
            "0.000002000,0.000048000,W,8388608,823296,4096",
        ]
    );
    assert_eq!(
        lost(&loss),
        "events 2, notes 2, flushes 1, sync_flags 0"
            .replace(", sync_flags 0", ", latencies_unknown 1, processes 3, processors 2, devices_renamed 3")
    );
}

#[test]
fn inputs_are_merged_by_time() {
    let lines: Vec<&str> = EVENTS.lines().collect();
    let (a, b): (Vec<&str>, Vec<&str>) = lines.iter().partition(|line| line.contains("8,0    0 "));
    let (a, b) = (a.join("\n"), b.join("\n"));
    let inputs = [("a", Format::Blkparse, a.as_bytes()), ("b", Format::Blkparse, b.as_bytes())];
    let (merged, _) = convert(&inputs, Format::Blkparse).unwrap();
    let (whole, _) = convert(&[("t", Format::Blkparse, EVENTS.as_bytes())], Format::Blkparse).unwrap();
    assert_eq!(merged, whole);
    assert_eq!(merged.lines().count(), 8);
}

#[test]
fn latencies_become_completions() {
    let csv = "128166372003061629,hm,0,Read,4096,4096,30\n128166372003061639,hm,0,Write,8192,4096,5\n";
    let (text, loss) = convert(&[("hm", Format::Msr, csv.as_bytes())], Format::Blkparse).unwrap();
    let words: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
    let seen: Vec<String> =
        words.iter().map(|words| format!("{} {}", words[3], words[5..9].join(" "))).collect();
    assert_eq!(
        seen,
        ["0.000000000 Q R 8 +", "0.000001000 Q W 16 +", "0.000001500 C W 16 +", "0.000003000 C R 8 +"]
    );
    // The wall-clock time of the start has no column.
    assert_eq!(lost(&loss), "notes 1, devices_renamed 4");
    let (binary, _) = convert(&[("hm", Format::Msr, csv.as_bytes())], Format::Iolog2).unwrap();
    assert!(binary.contains("hm.0 read 4096 4096\nhm.0 write 8192 4096\nhm.0 close\n"), "{binary}");
}

#[test]
fn disorder_is_sorted_within_a_window_and_refused_beyond() {
    let line = |time: u64| format!("1,R,0,512,{time}\n");
    let near: String = [3, 1, 2].map(line).concat();
    let (sorted, _) = convert(&[("t", Format::Alibaba, near.as_bytes())], Format::Alibaba).unwrap();
    assert_eq!(sorted, [1, 2, 3].map(line).concat());
    let far: String = (100..200 + 2 * WINDOW as u64).chain([5]).map(line).collect();
    let error = convert(&[("t", Format::Alibaba, far.as_bytes())], Format::Alibaba).unwrap_err().to_string();
    assert!(error.contains(&format!("t:{}: its time, 5000 ns, is before", 101 + 2 * WINDOW)), "{error}");
    let inputs = vec![Input::new("t", Format::Alibaba, far.as_bytes())];
    let mut merged = Merged::new(inputs, true).unwrap();
    let mut count = 0;
    while merged.next_item().unwrap().is_some() {
        count += 1;
    }
    assert_eq!((count, merged.passed().records), (100 + 2 * WINDOW, 1));
}

#[test]
fn clocks_that_differ_are_not_mixed() {
    let inputs = [("a", Format::Alibaba, &b""[..]), ("b", Format::Spc, &b""[..])];
    let error = convert(&inputs, Format::Spc).unwrap_err().to_string();
    assert!(error.starts_with("b: its times do not begin where those of a begin"), "{error}");
}
