//! A finding as a file that repeats it: one line of JSON, then the recording up to the cut.

use crate::explore::Cut;
use crate::recording::Recording;
use crate::volume::{Lost, Semantics};
use serde_json::{Value, json};

/// What repeats a finding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The rules of the file system.
    pub semantics: Semantics,
    /// The seed of the run that found it.
    pub seed: u64,
    /// Where power is cut, and what is lost.
    pub cut: Cut,
    /// The check.
    pub check: String,
    /// The recorded calls before the cut.
    pub recording: Recording,
}

/// Value of the key `format`.
const FORMAT: &str = "platter-crash-plan-1";

impl Plan {
    /// The contents of the file.
    pub fn encode(&self) -> Vec<u8> {
        let head = json!({
            "format": FORMAT,
            "semantics": self.semantics.name(),
            "seed": self.seed,
            "cut": self.cut.steps,
            "lost": lost_text(&self.cut.lost),
            "check": self.check,
        });
        let mut bytes = format!("{head}\n").into_bytes();
        bytes.extend(self.recording.encode(self.cut.steps));
        bytes
    }

    /// The plan in a file.
    ///
    /// # Errors
    /// It is none, or damaged.
    pub fn decode(bytes: &[u8]) -> Result<Plan, String> {
        let end =
            bytes.iter().position(|byte| *byte == b'\n').ok_or("it is no plan: it has no first line")?;
        let head: Value = serde_json::from_slice(&bytes[..end])
            .map_err(|error| format!("it is no plan: its first line is not JSON: {error}"))?;
        if head["format"] != FORMAT {
            return Err(format!("it is no plan: `format` is {}, and should be \"{FORMAT}\"", head["format"]));
        }
        let wrong = |key: &str| format!("`{key}` is {}", head[key]);
        let text = |key: &str| head[key].as_str().ok_or_else(|| wrong(key));
        let number = |key: &str| head[key].as_u64().ok_or_else(|| wrong(key));
        let name = text("semantics")?;
        let semantics = Semantics::ALL.into_iter().find(|known| known.name() == name);
        let recording = Recording::decode(&bytes[end + 1..]).map_err(|error| error.to_string())?;
        let steps = usize::try_from(number("cut")?).map_err(|_| wrong("cut"))?;
        if steps > recording.steps.len() {
            let recorded = recording.steps.len();
            return Err(format!("`cut` is {steps}, and the recording has {recorded} steps"));
        }
        Ok(Plan {
            semantics: semantics.ok_or_else(|| wrong("semantics"))?,
            seed: number("seed")?,
            cut: Cut { steps, lost: parse_lost(text("lost")?)? },
            check: text("check")?.to_owned(),
            recording,
        })
    }
}

/// Lost parts as text: `step:part+count`, separated by commas.
pub fn lost_text(lost: &Lost) -> String {
    let mut runs: Vec<(usize, u32, u32)> = Vec::new();
    for (step, part) in lost {
        match runs.last_mut() {
            Some((last, first, count)) if last == step && *first + *count == *part => *count += 1,
            _ => runs.push((*step, *part, 1)),
        }
    }
    let run = |(step, part, count): &(usize, u32, u32)| format!("{step}:{part}+{count}");
    runs.iter().map(run).collect::<Vec<_>>().join(",")
}

/// Most parts of one run: a write of 2 GiB, which is what the kernel carries out at once.
const MOST: u32 = 1 << 22;

fn parse_lost(text: &str) -> Result<Lost, String> {
    let mut lost = Lost::new();
    for run in text.split(',').filter(|run| !run.is_empty()) {
        let parse = || {
            let (step, parts) = run.split_once(':')?;
            let (first, count) = parts.split_once('+')?;
            let (step, first, count): (usize, u32, u32) =
                (step.parse().ok()?, first.parse().ok()?, count.parse().ok()?);
            let end = first.checked_add(count).filter(|end| *end <= MOST)?;
            Some((step, first..end))
        };
        let (step, parts) =
            parse().ok_or_else(|| format!("`lost` has `{run}`, which is not step:part+count"))?;
        lost.extend(parts.map(|part| (step, part)));
    }
    Ok(lost)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lost_parts_are_written_and_read() {
        let lost = Lost::from([(3, 0), (3, 1), (3, 4), (7, 0)]);
        assert_eq!(lost_text(&lost), "3:0+2,3:4+1,7:0+1");
        assert_eq!(parse_lost("3:0+2,3:4+1,7:0+1"), Ok(lost));
        assert_eq!(parse_lost(""), Ok(Lost::new()));
        for wrong in ["3", "3:0", "x:0+1", "3:0+4294967295", "3:1+4194304", ":"] {
            assert!(parse_lost(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_plan_is_written_and_read() {
        let cut = Cut { steps: 0, lost: Lost::new() };
        let (semantics, check) = (Semantics::Lazyfs, "true".to_owned());
        let plan = Plan { semantics, seed: 7, cut, check, recording: Recording::default() };
        let bytes = plan.encode();
        assert_eq!(Plan::decode(&bytes), Ok(plan));
        for len in 0..bytes.len() {
            assert!(Plan::decode(&bytes[..len]).is_err(), "{len}");
        }
        let text = String::from_utf8_lossy(&bytes).replace("\"cut\":0", "\"cut\":9");
        assert!(Plan::decode(text.as_bytes()).is_err());
    }
}
