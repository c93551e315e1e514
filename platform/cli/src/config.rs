//! `quorate config`: making, checking and describing cluster files.

use crate::arguments::{CheckArguments, ConfigCommand, NewArguments, Ports};
use crate::exit::{Exit, Failure, say};
use quorate_config::{
    ClusterConfig, Hosts, Note, PortChoice, TemplateConfig, WriteError, load_cluster, load_template, new_cluster,
    schema, write_cluster,
};
use quorate_framework::{ClusterId, limits};
use serde_json::Value;
use std::io::ErrorKind;

/// HTTP ports are this far above those of peers, as with the default ports.
const HTTP_PORT_OFFSET: u16 = limits::HTTP_PORT_BASE - limits::PEER_PORT_BASE;
/// RESP ports are this far above those of peers, as with the default ports.
const RESP_PORT_OFFSET: u16 = limits::RESP_PORT_BASE - limits::PEER_PORT_BASE;

pub(crate) fn run(command: ConfigCommand) -> Result<Exit, Failure> {
    match command {
        ConfigCommand::New(arguments) => make(arguments),
        ConfigCommand::Check(arguments) => check(&arguments),
        ConfigCommand::Schema => {
            say(format_args!("{:#}", schema()));
            Ok(Exit::Ok)
        }
    }
}

fn make(arguments: NewArguments) -> Result<Exit, Failure> {
    let ports = port_choice(arguments.ports, arguments.base_port)?;
    let (template, notes) = match &arguments.template {
        Some(path) => {
            let accepted = load_template(path).map_err(Failure::bad_input)?;
            (accepted.config, accepted.notes)
        }
        None => (TemplateConfig::defaults(), Vec::new()),
    };
    let hosts = match (arguments.replicas, arguments.hosts) {
        (Some(count), _) => Hosts::Loopback(count),
        (None, Some(hosts)) => Hosts::List(hosts),
        (None, None) if template.replicas().is_some() => Hosts::Template,
        (None, None) => return Err(Failure::bad_input("which replicas? give --replicas N or --hosts HOST,HOST,...")),
    };
    if hosts == Hosts::Template && arguments.base_port.is_some() {
        return Err(Failure::bad_input("--base-port: the replicas of the template have their own ports"));
    }
    let cluster = new_cluster(&template, ClusterId(rand::random()), &hosts, ports).map_err(Failure::bad_input)?;
    write_cluster(&arguments.out, &cluster, arguments.force).map_err(|error| match error {
        WriteError::Exists { path } => {
            Failure::bad_input(format_args!("{}: there is already a file; --force overwrites it", path.display()))
        }
        WriteError::Directory { .. } => Failure::bad_input(error),
        WriteError::Io { ref source, .. } if is_bad_path(source.kind()) => Failure::bad_input(error),
        WriteError::Io { .. } => Failure::failed(error),
    })?;
    let full = std::path::absolute(&arguments.out).unwrap_or(arguments.out);
    say(format_args!("wrote {}", full.display()));
    describe(&cluster);
    tell(&notes);
    Ok(Exit::Ok)
}

/// Whether another path would do.
fn is_bad_path(kind: ErrorKind) -> bool {
    use ErrorKind::{InvalidInput, NotADirectory, NotFound, PermissionDenied, ReadOnlyFilesystem};
    matches!(kind, InvalidInput | NotADirectory | NotFound | PermissionDenied | ReadOnlyFilesystem)
}

fn port_choice(ports: Ports, base: Option<u16>) -> Result<PortChoice, Failure> {
    let base = match (ports, base) {
        (Ports::Free, None) => return Ok(PortChoice::FreeBlock),
        (Ports::Free, Some(_)) => {
            return Err(Failure::bad_input(
                "--base-port names the ports and --ports free looks for them; give one of them",
            ));
        }
        (Ports::Base, base) => base.unwrap_or(limits::PEER_PORT_BASE),
    };
    if base == 0 {
        return Err(Failure::bad_input("--base-port 0: allowed: 1 to 63535"));
    }
    let above = |offset: u16, what: &str| {
        base.checked_add(offset).ok_or_else(|| {
            Failure::bad_input(format_args!(
                "--base-port {base}: {what} ports are {offset} above it and would exceed 65535; allowed: 1 to 63535"
            ))
        })
    };
    Ok(PortChoice::Base { peer: base, http: above(HTTP_PORT_OFFSET, "HTTP")?, resp: above(RESP_PORT_OFFSET, "RESP")? })
}

fn check(arguments: &CheckArguments) -> Result<Exit, Failure> {
    let file = arguments.file.display();
    if arguments.template {
        let accepted = load_template(&arguments.file).map_err(Failure::bad_input)?;
        say(format_args!("{file}: a template without faults"));
        for (key, value) in accepted.config.given() {
            say(format_args!("  {key}: {value}"));
        }
        tell(&accepted.notes);
    } else {
        let accepted = load_cluster(&arguments.file).map_err(Failure::bad_input)?;
        say(format_args!("{file}: a cluster file without faults"));
        describe(&accepted.config);
        tell(&accepted.notes);
    }
    Ok(Exit::Ok)
}

fn describe(cluster: &ClusterConfig) {
    let settings = cluster.settings();
    let (protocol, count) = (settings.consensus, cluster.replicas().len());
    say(format_args!("cluster {} with {protocol}", cluster.cluster_id()));
    for replica in cluster.replicas() {
        say(format_args!(
            "  replica {} at {}, HTTP port {}, RESP port {}",
            replica.id,
            replica.peer_address(),
            replica.http_port,
            replica.resp_port
        ));
    }
    say(format_args!(
        "{} of {count} replicas must agree; {} may fail",
        protocol.quorum(count),
        protocol.tolerated_faults(count)
    ));
    if !settings.recovery_enabled {
        say("not durable: recovery_enabled is false, everything is in memory and lost with the processes");
    }
    say("effective settings:");
    if let Value::Object(effective) = cluster.effective_settings() {
        for (key, value) in effective.iter().filter(|(key, _)| *key != "replicas" && *key != "cluster_id") {
            say(format_args!("  {key}: {value}"));
        }
    }
}

fn tell(notes: &[Note]) {
    notes.iter().for_each(say);
}
