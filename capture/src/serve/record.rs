//! What becomes of a request.

use rooflens_schemas::{RequestStatus, ServingRequest};

/// Why a request failed. Never with text of the server, which may repeat keys and prompts.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum RequestError {
    /// The operating system's word: refused, reset, too many open files.
    #[error("connection: {0}")]
    Connection(String),
    #[error("the connection was closed before the answer ended")]
    Closed,
    #[error("timeout")]
    Timeout,
    #[error("HTTP {0}")]
    Status(u16),
    #[error("not HTTP: {0}")]
    Http(&'static str),
    #[error("not an event stream of tokens: {0}")]
    Stream(&'static str),
    #[error("the server reported an error in the stream")]
    Server,
    #[error("no token before the end")]
    NoToken,
    #[error("interrupted")]
    Interrupted,
}

impl From<std::io::Error> for RequestError {
    fn from(error: std::io::Error) -> Self {
        Self::Connection(error.to_string())
    }
}

/// A request that has ended.
#[derive(Debug)]
pub(super) struct Record {
    pub(super) request: ServingRequest,
    /// What the server said of an error, for the terminal.
    pub(super) said: Option<String>,
}

impl Record {
    /// The line of the file.
    pub(super) fn line(&self) -> String {
        let mut line = serde_json::to_string(&self.request).expect("numbers and text");
        line.push('\n');
        line
    }

    /// Whether the load ended before the answer.
    pub(super) fn is_interrupted(&self) -> bool {
        self.request.error == Some(RequestError::Interrupted.to_string())
    }

    pub(super) fn is_ok(&self) -> bool {
        self.request.status == RequestStatus::Ok
    }
}
