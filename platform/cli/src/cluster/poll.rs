//! Asking every replica for its status at once.

use quorate_config::{ClusterConfig, ReplicaAddress};
use serde_json::Value;
use std::time::Duration;
use ureq::Agent;

/// Time for one replica's answer: above what a replica waits for its own core.
const ANSWER_TIME: Duration = Duration::from_millis(1_500);
/// A status object is far smaller.
const ANSWER_BYTES_MAX: u64 = 1 << 20;

/// What came of asking one replica.
#[derive(Clone, Debug)]
pub(super) struct Answer {
    /// The replica.
    pub(super) id: u32,
    /// Its status, or why there is none.
    pub(super) status: Result<Value, String>,
}

/// Asks all replicas at the same time and waits for all answers, at most a little longer than [`ANSWER_TIME`].
pub(super) fn all(cluster: &ClusterConfig) -> Vec<Answer> {
    let agent: Agent = Agent::config_builder()
        .timeout_global(Some(ANSWER_TIME))
        .http_status_as_error(false)
        .max_redirects(0)
        .proxy(None)
        .build()
        .into();
    std::thread::scope(|scope| {
        let asked: Vec<_> = cluster
            .replicas()
            .iter()
            .map(|replica| {
                let agent = agent.clone();
                (replica.id.0, scope.spawn(move || one(&agent, cluster, replica)))
            })
            .collect();
        asked
            .into_iter()
            .map(|(id, answer)| {
                let status = answer.join().unwrap_or_else(|_| Err("the question failed".to_owned()));
                Answer { id, status }
            })
            .collect()
    })
}

fn one(agent: &Agent, cluster: &ClusterConfig, replica: &ReplicaAddress) -> Result<Value, String> {
    let address = replica.http_address();
    let at = |what: &dyn std::fmt::Display| format!("{what} (status at {address})");
    let mut response = agent.get(format!("http://{address}/status")).call().map_err(|error| at(&reason(&error)))?;
    let text = response
        .body_mut()
        .with_config()
        .limit(ANSWER_BYTES_MAX)
        .read_to_string()
        .map_err(|error| at(&reason(&error)))?;
    let status: Value = serde_json::from_str(&text).map_err(|_| at(&"what answers there is no replica"))?;
    if !response.status().is_success() {
        let said = status.get("error").and_then(Value::as_str).unwrap_or("an error without a reason");
        return Err(at(&said));
    }
    let (id, cluster_id) = (status["id"].as_u64(), status["cluster_id"].as_str());
    if id != Some(u64::from(replica.id.0)) || cluster_id != Some(cluster.cluster_id().to_string().as_str()) {
        return Err(at(&format_args!(
            "another replica answers there: {} of cluster {}",
            id.map_or_else(|| "unknown".to_owned(), |id| id.to_string()),
            cluster_id.unwrap_or("unknown")
        )));
    }
    Ok(status)
}

/// An error of the question in words for the user.
fn reason(error: &ureq::Error) -> String {
    match error {
        ureq::Error::Timeout(_) => format!("no answer within {} ms", ANSWER_TIME.as_millis()),
        ureq::Error::Io(error) => match error.kind() {
            std::io::ErrorKind::ConnectionRefused => "not running: connection refused".to_owned(),
            _ => error.to_string(),
        },
        other => other.to_string(),
    }
}
