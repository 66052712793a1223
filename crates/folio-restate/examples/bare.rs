//! A service of Restate alone, of the shape that a tree of tasks has, to measure against: each task is an invocation that is
//! durable before its parent knows of it, and nothing else happens.
//!
//! `bare ADDRESS` listens there.

#![expect(missing_docs, reason = "the macro writes a client and does not say what it is")]

use restate_sdk::prelude::*;

/// A tree of tasks.
struct Bare;

/// Children of each task.
const CHILDREN: usize = 4;

#[service(name = "Bare")]
impl Bare {
    /// How many tasks a tree of so many levels below its root has, each of which was called; a leaf keeps one step.
    #[handler]
    async fn solve(&self, ctx: Context<'_>, levels: u32) -> Result<u64, TerminalError> {
        if levels == 0 {
            return ctx.run(|| async { Ok(1_u64) }).name("leaf").await;
        }
        let mut children = DurableFuturesUnordered::new();
        for _ in 0..CHILDREN {
            children.push(ctx.service_client::<BareClient<'_>>().solve(levels - 1).call());
        }
        let mut tasks = 1;
        while let Some((_, solved)) = children.next().await? {
            tasks += solved?;
        }
        Ok(tasks)
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let address = std::env::args().nth(1).ok_or("the address to listen at is missing")?;
    let listener = tokio::net::TcpListener::bind(address).await?;
    let endpoint = Endpoint::builder().bind(Bare).build();
    HttpServer::new(endpoint)
        .serve_with_cancel(listener, std::future::pending::<()>())
        .await;
    Ok(())
}
