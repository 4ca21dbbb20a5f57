//! Queues orders as they arrive. They may arrive before the current one is done.

use crate::worker::protocol::{Job, WorkerJob};
use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

#[derive(Default)]
pub struct Orders {
    waiting: Mutex<VecDeque<WorkerJob>>,
    more: Condvar,
}

impl Orders {
    pub fn put(&self, order: WorkerJob) {
        self.held().push_back(order);
        self.more.notify_all();
    }

    /// Takes the oldest order, and waits until there is one.
    pub fn take(&self) -> WorkerJob {
        loop {
            let mut waiting = self.wait();
            if let Some(order) = waiting.pop_front() {
                return order;
            }
        }
    }

    /// Returns the job that `take` will return next, and leaves it in the queue. Waits until there is one.
    pub fn next_job(&self) -> Job {
        loop {
            if let Some(order) = self.wait().front() {
                return order.job.clone();
            }
        }
    }

    fn wait(&self) -> MutexGuard<'_, VecDeque<WorkerJob>> {
        self.more
            .wait_while(self.held(), |waiting| waiting.is_empty())
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn held(&self) -> MutexGuard<'_, VecDeque<WorkerJob>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn shows_the_next_job_early_and_keeps_the_order() {
        let orders = Arc::new(Orders::default());
        let seen = {
            let orders = Arc::clone(&orders);
            std::thread::spawn(move || orders.next_job())
        };
        for id in 1..=2 {
            orders.put(WorkerJob {
                id,
                job: Job::KnownGood,
            });
        }
        assert_eq!(seen.join().unwrap(), Job::KnownGood);
        assert_eq!([orders.take().id, orders.take().id], [1, 2]);
    }
}
