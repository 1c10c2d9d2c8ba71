/**
 * Sends alerts to a URL of the operator: as JSON that Slack, Mattermost and Discord (`/slack`) understand, signed as
 * Standard Webhooks are. A bounded queue, and retries; the URL and the secret are never logged.
 */
import { createHmac } from 'node:crypto'
import type { Clock, Log } from '../../core/mod.ts'
import type { AlertReport } from './alerts.ts'

type WebhookOptions = {
  readonly url: string
  /** `whsec_` and base64, or any text. Without it nothing is signed. */
  readonly secret?: string | undefined
  readonly clock: Clock
  readonly log: Log
  readonly newId: () => string
  readonly fetch?: (url: string, init: RequestInit) => Promise<{ readonly status: number }>
}

type Webhook = {
  send(report: AlertReport): void
  /** Resolves when the queue is empty, or after `ms`. */
  flush(ms: number): Promise<void>
  close(): void
}

const MAX_QUEUED = 100
const MAX_ATTEMPTS = 8
const FIRST_RETRY_MS = 1_000
const MAX_RETRY_MS = 60_000
const TIMEOUT_MS = 10_000

export function webhook({ url, secret, clock, log, newId, fetch = globalThis.fetch }: WebhookOptions): Webhook {
  const queue: AlertReport[] = []
  const stopped = new AbortController()
  let sending: Promise<void> | undefined

  return {
    send(report) {
      if (queue.length >= MAX_QUEUED) {
        const dropped = queue.shift()
        log.warn('alerts could not be delivered: the oldest of the queue was dropped', { event: dropped?.event })
      }
      queue.push(report)
      sending ??= sendAll().finally(() => (sending = undefined))
    },
    async flush(ms) {
      const over = new AbortController()
      await Promise.race([sending, clock.wait(ms, over.signal)])
      over.abort()
    },
    close: () => stopped.abort(),
  }

  async function sendAll(): Promise<void> {
    for (let report = queue[0]; report && !stopped.signal.aborted; report = queue[0]) {
      await deliver(report)
      if (queue[0] === report) queue.shift()
    }
  }

  async function deliver(report: AlertReport): Promise<void> {
    const id = `msg_${newId()}`
    const body = JSON.stringify(bodyOf(report))
    let reason = ''
    for (let attempt = 1; attempt <= MAX_ATTEMPTS; attempt++) {
      reason = await post(id, body)
      if (reason === '' || stopped.signal.aborted) return
      if (attempt === 1) log.warn('an alert could not be delivered; it is retried', { event: report.event, reason })
      await clock.wait(Math.min(MAX_RETRY_MS, FIRST_RETRY_MS * 2 ** (attempt - 1)), stopped.signal)
    }
    log.alert('an alert could not be delivered', { event: report.event, summary: report.summary, reason })
  }

  /** Empty when it was accepted. */
  async function post(id: string, body: string): Promise<string> {
    const timestamp = String(Math.floor(clock.now() / 1000))
    const signature = secret === undefined ? undefined : signatureOf(secret, `${id}.${timestamp}.${body}`)
    try {
      const { status } = await fetch(url, {
        method: 'POST',
        redirect: 'manual',
        signal: AbortSignal.timeout(TIMEOUT_MS),
        headers: {
          'content-type': 'application/json',
          'webhook-id': id,
          'webhook-timestamp': timestamp,
          ...(signature !== undefined && { 'webhook-signature': `v1,${signature}` }),
        },
        body,
      })
      return status >= 200 && status < 300 ? '' : `HTTP ${status}`
    } catch (error) {
      // Messages of fetch may name the URL, which is a secret at Slack.
      const { code, name } = error as Error & { code?: string }
      return code ?? name
    }
  }
}

/** The symmetric signature of Standard Webhooks. */
function signatureOf(secret: string, content: string): string {
  const key = secret.startsWith('whsec_') ? Buffer.from(secret.slice('whsec_'.length), 'base64') : Buffer.from(secret)
  return createHmac('sha256', key).update(content).digest('base64')
}

const MARK = { critical: 'CRITICAL', warning: 'Warning' } as const

/** `text` is for chat tools, and the rest for programs. */
function bodyOf({ event, severity, gateway, state, at, since, subject, summary, details = {} }: AlertReport) {
  const minutes = Math.round((at - since) / 60_000)
  const text = state === 'started' ? `${MARK[severity]}: ${summary}` : `Over after ${minutes} min: ${summary}`
  return {
    text: gateway === '' ? text : `[${gateway}] ${text}`,
    event,
    state,
    severity,
    gateway,
    at: new Date(at).toISOString(),
    summary,
    details: { ...(subject !== '' && { subject }), since: new Date(since).toISOString(), ...details },
  }
}
