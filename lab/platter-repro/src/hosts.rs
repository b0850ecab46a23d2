//! The machines and kernels on which experiments are reproduced, with the source of each parameter.

use super::dale2002;
use super::dm2002;
use super::dsw2002;
use super::host::kernel::{Holds, Kernel, UNLIMITED};
use super::host::machine::Machine;
use super::unplug2004;
use platter_bench::report::units::{bytes, fixed};
use platter_block::time::Span;
use serde::{Serialize, Serializer};

/// A parameter of a machine or of a kernel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Parameter {
    /// `machine`, or the name of the kernel.
    pub group: &'static str,
    /// Its name.
    pub name: &'static str,
    /// The value as text.
    pub value: String,
    /// Unit of the value; empty where it has none.
    pub unit: &'static str,
    /// Where the value is from: a document, the figure that sets it, or that it is chosen or from memory.
    pub source: &'static str,
}

impl Parameter {
    pub(super) fn new(
        group: &'static str,
        name: &'static str,
        (value, unit): (impl ToString, &'static str),
        source: &'static str,
    ) -> Parameter {
        Parameter { group, name, value: value.to_string(), unit, source }
    }
}

/// A machine with its kernels.
#[derive(Serialize)]
pub struct HostModel {
    /// Its name: `platter sim host show NAME`.
    pub name: &'static str,
    /// One line.
    pub summary: &'static str,
    /// The experiment that runs on it.
    pub experiment: &'static str,
    /// Its parameters, those of a group together.
    #[serde(serialize_with = "made")]
    pub parameters: fn() -> Vec<Parameter>,
}

fn made<S: Serializer>(parameters: &fn() -> Vec<Parameter>, serializer: S) -> Result<S::Ok, S::Error> {
    parameters().serialize(serializer)
}

/// Every host.
pub static TABLE: &[HostModel] = &[
    HostModel {
        name: "dm2002",
        summary: "eight processors of 700 MHz, four RAID adapters, 32 disks; Linux 2.4.17 with four patches, and 2.5.17",
        experiment: "dm2002",
        parameters: dm2002::parameters,
    },
    HostModel {
        name: "dsw2002",
        summary: "eight processors of 700 MHz, six RAID adapters, agents that prefetch and compute; Linux 2.4.17 with four patches",
        experiment: "dsw2002",
        parameters: dsw2002::parameters,
    },
    HostModel {
        name: "dale2002",
        summary: "two processors of 733 MHz, eight disks on 2 Gbit/s Fibre Channel; Linux 2.4.19-pre8aa2 and 2.5.25",
        experiment: "dale2002",
        parameters: dale2002::parameters,
    },
    HostModel {
        name: "intel2004",
        summary: "32 processors, 1,000 disks; Linux 2.6.3 with one list of plugged queues, or a plug for each device",
        experiment: "unplug2004",
        parameters: || unplug2004::parameters("Intel"),
    },
    HostModel {
        name: "sgi2004",
        summary: "64 processors, 112 disks on ten adapters; Linux 2.6.3 with one list of plugged queues, or a plug for each device",
        experiment: "unplug2004",
        parameters: || unplug2004::parameters("SGI"),
    },
];

/// Looks a host up by name.
pub fn by_name(name: &str) -> Option<&'static HostModel> {
    TABLE.iter().find(|host| host.name == name)
}

/// Sources of the parameters of a machine: of its counts, and of its adapters' times.
pub(super) fn of_machine(machine: &Machine, [counts, times]: [&'static str; 2]) -> Vec<Parameter> {
    let count = |name, count: usize| Parameter::new("machine", name, (count, ""), counts);
    let time = |name, span| Parameter::new("machine", name, micros(span), times);
    let line = "McKenney, Exploiting Deferred Destruction (2004), table of costs, from notes; times 700/733 for 733 MHz";
    vec![
        count("processors", machine.processors),
        count("adapters", machine.adapters),
        count("disks", machine.disks),
        time("adapter, a command", machine.command),
        time("adapter, a KiB", machine.kib),
        Parameter::new(
            "machine",
            "hand-over of a contended lock",
            micros(machine.contention.hand_over),
            line,
        ),
        Parameter::new(
            "machine",
            "more of it for each other spinner",
            micros(machine.contention.per_spinner),
            line,
        ),
    ]
}

/// Holds of the locks of 2.4, with their sources.
pub(super) fn of_holds(holds: &Holds) -> [Parameter; 6] {
    let hold = |name, span, source| Parameter::new("locks", name, micros(span), source);
    let table = "OLS 2002, Table 5";
    [
        hold("hold to queue a unit", holds.queue, "OLS 2002, Table 6"),
        hold("hold to take requests from a queue", holds.unplug, table),
        hold("hold to send a command", holds.send, table),
        hold("hold of an interrupt", holds.interrupt, table),
        hold("hold of the others, each", holds.other, table),
        Parameter::new(
            "locks",
            "others for a command",
            (holds.others * 2, ""),
            "OLS 2002, Table 5: 3.75; half of them at completion is chosen",
        ),
    ]
}

/// Sources of the parameters of a kernel: of its sizes, its locks, and its times of a unit and of a command.
pub(super) struct KernelSources {
    pub(super) sizes: &'static str,
    pub(super) locks: &'static str,
    pub(super) unit: &'static str,
    pub(super) command: &'static str,
    /// Of the copy through low memory, where there is one.
    pub(super) copy: &'static str,
}

pub(super) fn of_kernel(kernel: &Kernel, sources: &KernelSources) -> Vec<Parameter> {
    let size = |size: u64| if size == UNLIMITED { "the call".to_owned() } else { bytes(size) };
    let scope = |scope| (format!("{scope:?}").to_lowercase(), "");
    let new = |name, value: (String, &'static str), source| Parameter::new(kernel.name, name, value, source);
    let command = if kernel.command >= 1 << 30 {
        "no limit".to_owned()
    } else {
        format!("{} sectors", kernel.command / 512)
    };
    let mut all = vec![
        new("unit", (size(kernel.unit), ""), sources.sizes),
        new("in flight before a call waits", (size(kernel.chunk), ""), sources.sizes),
        new("command", (command, ""), sources.sizes),
        new("lock of queueing", scope(kernel.queueing), sources.locks),
        new("lock of sending", scope(kernel.sending), sources.locks),
        new("function of a unit", micros(kernel.per_unit), sources.unit),
        new("function of a command", micros(kernel.per_command), sources.command),
    ];
    if kernel.bounce {
        all.push(new("copy of a KiB through low memory", micros(kernel.copy_kib), sources.copy));
    }
    all
}

pub(super) fn micros(span: Span) -> (String, &'static str) {
    (fixed(span.0 as f64 / 1e3, 3), "us")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_parameter_has_a_source_and_a_name_of_its_own() {
        for host in TABLE {
            assert!(crate::by_name(host.experiment).is_some(), "{}", host.name);
            let parameters = (host.parameters)();
            let names: BTreeSet<_> = parameters.iter().map(|each| (each.group, each.name)).collect();
            assert_eq!(names.len(), parameters.len(), "{}", host.name);
            assert!(parameters.iter().any(|each| each.group != "machine"), "{}", host.name);
            for each in &parameters {
                assert!(!each.source.is_empty() && !each.value.is_empty(), "{each:?}");
            }
        }
        assert!(by_name("dm2002").is_some() && by_name("nothing").is_none());
    }
}
