//! `quorate cluster wait`.

use super::poll::{self, Answer};
use super::status::common_leader;
use crate::arguments::WaitArguments;
use crate::exit::{Exit, Failure, say};
use quorate_client::{Client, ClientOptions, Outcome};
use quorate_config::ClusterConfig;
use quorate_executor::Command;
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::Write;
use std::time::{Duration, Instant};

const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// Lines about what is missing are written at most this often.
const LINE_INTERVAL: Duration = Duration::from_secs(1);
/// The key of the one write: a name that no load generator uses.
const READY_KEY: &[u8] = b"quorate/ready";

pub(super) fn run(arguments: &WaitArguments) -> Result<Exit, Failure> {
    let cluster = super::load(&arguments.config)?;
    let deadline = Instant::now() + Duration::from_secs(arguments.timeout_s);
    let leader = wait_for_replicas(&cluster, deadline).map_err(|missing| {
        let reasons = missing.iter().map(|(id, reason)| format!("replica {id}: {reason}")).collect::<Vec<_>>();
        Failure::failed(format_args!("not ready within {} s\n{}", arguments.timeout_s, reasons.join("\n")))
    })?;
    write_once(&cluster, deadline)?;
    say(format_args!("ready: {} replicas, replica {leader} leads, a write was executed", cluster.replicas().len()));
    Ok(Exit::Ok)
}

/// What each replica that is not ready lacks.
type Missing = BTreeMap<u32, String>;

fn wait_for_replicas(cluster: &ClusterConfig, deadline: Instant) -> Result<u64, Missing> {
    let mut said = (Missing::new(), None::<Instant>);
    loop {
        let answers = poll::all(cluster);
        let missing = missing(&answers);
        match common_leader(&answers) {
            Some(leader) if missing.is_empty() => return Ok(leader),
            _ => {}
        }
        let now = Instant::now();
        if now >= deadline {
            return Err(missing);
        }
        if said.0 != missing && said.1.is_none_or(|at| now - at >= LINE_INTERVAL) {
            let reasons = missing.iter().map(|(id, reason)| format!("replica {id}: {reason}"));
            // Progress is for whoever looks; without stderr nobody does.
            let _ = writeln!(std::io::stderr(), "waiting: {}", reasons.collect::<Vec<_>>().join("; "));
            said = (missing, Some(now));
        }
        std::thread::sleep(POLL_INTERVAL.min(deadline - now));
    }
}

fn missing(answers: &[Answer]) -> Missing {
    let lacking = |answer: &Answer| match &answer.status {
        Err(reason) => Some(reason.clone()),
        Ok(status) => what_it_lacks(status),
    };
    let mut missing: Missing = answers.iter().filter_map(|answer| Some((answer.id, lacking(answer)?))).collect();
    if missing.is_empty() && common_leader(answers).is_none() {
        let named = |answer: &Answer| Some(answer.status.as_ref().ok()?["leader"].to_string());
        missing.extend(answers.iter().filter_map(|answer| Some((answer.id, format!("follows {}", named(answer)?)))));
    }
    missing
}

fn what_it_lacks(status: &Value) -> Option<String> {
    if let Some(reason) = status["stopped"].as_str() {
        return Some(format!("stopping: {reason}"));
    }
    match status["forming"]["state"].as_str() {
        Some("formed") => {}
        Some("unbound") => return Some(status["forming"]["reason"].as_str().unwrap_or("unbound").to_owned()),
        _ => {
            let waits_for = array(&status["forming"]["waiting_for"]).iter().map(|id| with_trouble(status, id));
            return Some(format!("forming: waits for replicas {}", waits_for.collect::<Vec<_>>().join(", ")));
        }
    }
    let down: Vec<String> = array(&status["peers"])
        .iter()
        .filter(|peer| peer["connected"] != true)
        .map(|peer| with_trouble(status, &peer["id"]))
        .collect();
    if !down.is_empty() {
        return Some(format!("no connection to replicas {}", down.join(", ")));
    }
    status["leader"].is_null().then(|| "knows no leader".to_owned())
}

fn array(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

/// A peer's id, with the reason for which there is no connection if the replica knows one.
fn with_trouble(status: &Value, id: &Value) -> String {
    let peer = array(&status["peers"]).iter().find(|peer| peer["id"] == *id);
    match peer.and_then(|peer| peer["trouble"].as_str()) {
        Some(trouble) => format!("{id} ({trouble})"),
        None => id.to_string(),
    }
}

/// One write through the native client shows that a client is served, too.
fn write_once(cluster: &ClusterConfig, deadline: Instant) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::failed(format_args!("the process cannot be set up: {error}")))?;
    let left = deadline.saturating_duration_since(Instant::now()).max(Duration::from_secs(1));
    let options = ClientOptions { window_frames: 1, request_deadline: left, ..ClientOptions::of_cluster(cluster) };
    let outcome = runtime.block_on(async {
        let client = Client::connect(options, left).await.map_err(Failure::failed)?;
        Ok::<_, Failure>(client.execute(&[Command::Put { key: READY_KEY, value: b"yes" }]).await)
    })?;
    match outcome {
        Outcome::Done(done) if done.status == quorate_framework::Status::Ok => Ok(()),
        Outcome::Done(done) => Err(Failure::failed(format_args!("the write was answered {:?}", done.status))),
        Outcome::NotDone(reason) => Err(Failure::failed(format_args!("the write was not executed: {reason}"))),
        Outcome::Unknown | Outcome::Expired => {
            Err(Failure::unknown("whether the write was executed is unknown; wait again"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn formed(leader: u32) -> Value {
        json!({"stopped": null, "forming": {"state": "formed"}, "leader": leader,
            "peers": [{"id": 2, "connected": true}, {"id": 3, "connected": true}]})
    }

    #[test]
    fn each_lack_has_its_words() {
        assert_eq!(what_it_lacks(&formed(1)), None);
        let mut status = formed(1);
        status["peers"][1]["connected"] = json!(false);
        assert_eq!(what_it_lacks(&status).unwrap(), "no connection to replicas 3");
        let mut status = formed(1);
        status["forming"] = json!({"state": "forming", "waiting_for": [3, 4]});
        status["peers"][1]["trouble"] = json!("connection refused");
        assert_eq!(what_it_lacks(&status).unwrap(), "forming: waits for replicas 3 (connection refused), 4");
        let mut status = formed(1);
        status["leader"] = Value::Null;
        assert_eq!(what_it_lacks(&status).unwrap(), "knows no leader");
    }

    #[test]
    fn replicas_that_follow_different_leaders_are_not_ready() {
        let answers = [Answer { id: 1, status: Ok(formed(1)) }, Answer { id: 2, status: Ok(formed(2)) }];
        let missing = missing(&answers);
        assert_eq!(missing[&1], "follows 1");
        assert_eq!(missing[&2], "follows 2");
    }
}
