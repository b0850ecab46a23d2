use super::*;
use crate::event::Direction;
use crate::fields::{MOST_END, MOST_LENGTH};
use crate::format::{TABLE, read_all};
use proptest::prelude::*;

fn device() -> impl Strategy<Value = Device> {
    prop_oneof![
        any::<u32>().prop_map(Device::Number),
        (0u32..5).prop_map(|n| Device::Name(n.to_string().into())),
        "[a-z][a-z ,.0-9]{0,6}[a-z]".prop_map(|name| Device::Name(name.into())),
        ("[a-z]{1,3}", 0u32..3).prop_map(|(host, disk)| Device::Name(format!("{host}.{disk}").into())),
    ]
}

fn flags() -> impl Strategy<Value = Flags> {
    let all = [Flags::PREFLUSH, Flags::FUA, Flags::SYNC, Flags::META, Flags::AHEAD, Flags::COMMAND];
    prop::sample::subsequence(all.to_vec(), 0..3)
        .prop_map(|some| some.into_iter().fold(Flags::NONE, Flags::and))
}

/// A number that is often at an end of its range or a multiple of a sector.
fn number(most: u64) -> impl Strategy<Value = u64> {
    prop_oneof![Just(0), Just(most), 0..=most, (0..=most / 512).prop_map(|n| n * 512), 0..=most.min(100_000)]
}

prop_compose! {
    fn event()(
        time_ns in number(4_000_000_000_000_000_000),
        action in prop::sample::select(Action::ALL.to_vec()),
        arrives in any::<bool>(),
        direction in prop::sample::select(vec![Direction::None, Direction::Read, Direction::Write, Direction::Discard]),
        flags in flags(),
        (offset, length) in (number(MOST_END), number(MOST_LENGTH)),
        device in device(),
        (cpu, sequence, process, error) in (any::<u32>(), any::<u32>(), any::<u32>(), any::<u16>()),
        latency_ns in prop::option::of(number(1 << 60)),
        number in any::<u64>(),
    ) -> Event {
        let action = if arrives { Action::Queue } else { action };
        let length = length.min(MOST_END - offset);
        // As readers have it.
        let direction = if length == 0 && direction == Direction::Read { Direction::None } else { direction };
        let extra = match number % 4 {
            0 => Extra::None,
            1 => Extra::Requests(number),
            2 => Extra::Cut(number),
            _ => Extra::From(number as u32, number),
        };
        Event { time_ns, action, direction, flags, offset, length, device, cpu, sequence, process, error, latency_ns, extra }
    }
}

fn events_of(items: Vec<Item>) -> Vec<Event> {
    items
        .into_iter()
        .filter_map(|item| if let Item::Event(event) = item { Some(event) } else { None })
        .collect()
}

/// What fits a format is written and read again without a change.
fn round_trip(format: Format, mut events: Vec<Event>) -> Result<(), TestCaseError> {
    events.sort_by_key(|event| event.time_ns);
    let (mut fitter, mut sink, mut bytes, mut fitted) =
        (Fitter::new(format), format.sink(), Vec::new(), Vec::new());
    sink.begin(&mut bytes);
    for event in events {
        for item in fitter.item(Item::Event(event)).into_iter().flatten() {
            sink.item(&item, &mut bytes);
            fitted.push(item);
        }
    }
    sink.end(&mut bytes);
    let shown = String::from_utf8_lossy(&bytes).into_owned();
    let read =
        read_all(format, &bytes, "x").map_err(|error| TestCaseError::fail(format!("{error}\n{shown}")))?;
    prop_assert_eq!(events_of(read), events_of(fitted.clone()), "{:?}: {}", format, shown);
    // It fits, so nothing is lost the second time.
    let mut again = Fitter::new(format);
    let second: Vec<Item> =
        fitted.iter().cloned().flat_map(|item| again.item(item).into_iter().flatten()).collect();
    prop_assert_eq!(second, fitted);
    let lost: Vec<_> = again.loss().rows().filter(|row| row.2 > 0).collect();
    prop_assert!(lost.is_empty(), "{:?}: {:?}", format, lost);
    if !bytes.is_empty() && format != Format::Reads && !read_all(format, &bytes, "x").unwrap().is_empty() {
        let found = Format::detect(&bytes[..bytes.len().min(crate::DETECT)]);
        // Times of a test need not have the ten digits by which these are known.
        prop_assert!(found == Some(format) || format == Format::Tencent, "{:?}: {}", found, shown);
    }
    Ok(())
}

proptest! {
    #[test]
    fn what_fits_is_written_and_read_again(events in prop::collection::vec(event(), 0..12)) {
        for row in TABLE {
            round_trip(row.format, events.clone())?;
        }
    }
}

#[test]
fn losses_are_counted() {
    let name = |name: &str| Device::Name(name.into());
    let flush = Event { flags: Flags::PREFLUSH, ..Event::arrival(0, Direction::Write, 0, 0, name("a")) };
    let durable = Event {
        flags: Flags::PREFLUSH.and(Flags::FUA).and(Flags::SYNC),
        latency_ns: Some(1_500),
        process: 7,
        ..Event::arrival(1_234, Direction::Write, 1000, 100, name("a"))
    };
    let discard = Event::arrival(5_000, Direction::Discard, 512, 512, name("a"));
    let issue = Event { action: Action::Issue, ..discard.clone() };
    let lost = |format: Format| {
        let mut fitter = Fitter::new(format);
        for event in [&flush, &durable, &discard, &issue] {
            fitter.item(Item::Event(event.clone()));
        }
        let found: Vec<_> =
            fitter.loss().rows().filter(|row| row.2 > 0).map(|row| format!("{} {}", row.0, row.2)).collect();
        found.join(", ")
    };
    assert_eq!(
        lost(Format::Iolog3),
        "events 1, preflushes_split 1, fua_flags 1, sync_flags 1, latencies 1, processes 1, times_rounded 1"
    );
    assert_eq!(
        lost(Format::Alibaba),
        "events 1, flushes 1, discards 1, preflush_flags 1, fua_flags 1, sync_flags 1, latencies 1, processes 1, \
         devices_renamed 1, times_rounded 1"
    );
    assert_eq!(lost(Format::Blktrace), "devices_renamed 4, ranges_rounded 1");
    assert_eq!(
        lost(Format::Tencent),
        "events 1, flushes 1, discards 1, preflush_flags 1, fua_flags 1, sync_flags 1, latencies 1, processes 1, \
         devices_renamed 1, times_rounded 1, ranges_rounded 1"
    );
}
