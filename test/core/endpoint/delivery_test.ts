/** Delivery is one word, and what does not belong to it does not type-check. */
import { describe, expect, test } from 'bun:test'
import { Type } from '@sinclair/typebox'
import { endpoints, free, paid, polled, streamed } from '../../../core/mod.ts'
import { isSold, servesBeforeSettlement } from '../../../core/endpoint/mod.ts'
import { flatPrice } from '../../../core/x402/pricing.ts'

const words = {
  name: 'verses',
  path: '/api/v1/verses',
  summary: 'Write a verse',
  tag: 'verses',
  input: Type.Object({ about: Type.String() }),
  output: Type.Object({}),
  example: { about: 'rain' },
  price: () => ({ amount: flatPrice('0.01'), maxTimeoutSeconds: 300, publicPrice: {} }),
  show: () => ({}),
}
const run = async () => ({ result: null })
const submit = async () => ({ handle: 'verse-1' })
const pollUpstream = async () => ({ kind: 'running' as const })

/** Never called: the compiler is what is asked. */
const mixes = {
  inlineWithWindow: () =>
    // @ts-expect-error an inline call has no window after which it is a job
    paid({ ...words, run, delivery: 'inline', windowMs: 30_000 }),
  jobWithWindow: () =>
    // @ts-expect-error a job is never waited for
    paid({ ...words, run, delivery: 'job', windowMs: 30_000 }),
  verbatimJob: () =>
    // @ts-expect-error what is passed on as it came has no envelope to poll
    paid({ ...words, run, delivery: 'job', verbatim: true }),
  verbatimHybrid: () =>
    // @ts-expect-error the same holds for what may become a job, which is the usual delivery
    paid({ ...words, run, verbatim: true }),
  upstreamJobThatRuns: () =>
    // @ts-expect-error what the vendor works on is not run here
    paid({ ...words, run, submit, pollUpstream, delivery: 'upstream_job' }),
  upstreamJobThatNobodyPolls: () =>
    // @ts-expect-error what was submitted is asked after
    paid({ ...words, submit, delivery: 'upstream_job' }),
  inlineThatSubmits: () =>
    // @ts-expect-error an inline call has its result in the reply
    paid({ ...words, submit, pollUpstream, delivery: 'inline' }),
  submitWithoutDelivery: () =>
    // @ts-expect-error the usual delivery runs its work
    paid({ ...words, submit, pollUpstream }),
  nothingThatWorks: () =>
    // @ts-expect-error somebody does the work
    paid({ ...words, delivery: 'inline' }),
  streamedByPaid: () =>
    // @ts-expect-error a stream is made by streamed()
    paid({ ...words, run, delivery: 'stream' }),
  unknownWord: () =>
    // @ts-expect-error there are five deliveries
    paid({ ...words, run, delivery: 'on_poll' }),
}

describe('delivery', () => {
  test('is what was said, and hybrid within 30 seconds unless told', () => {
    expect([
      paid({ ...words, run }),
      paid({ ...words, run, delivery: 'hybrid', windowMs: 5_000 }),
      paid({ ...words, run, delivery: 'hybrid', windowMs: ({ about }) => about.length }),
      paid({ ...words, run, delivery: 'inline' }),
      paid({ ...words, run, delivery: 'job' }),
      paid({ ...words, submit, pollUpstream, delivery: 'upstream_job' }),
    ]).toMatchObject([
      { kind: 'sold', delivery: 'hybrid', windowMs: 30_000 },
      { delivery: 'hybrid', windowMs: 5_000 },
      { delivery: 'hybrid', windowMs: expect.any(Function) },
      { delivery: 'inline' },
      { delivery: 'job' },
      { delivery: 'upstream_job' },
    ])
  })

  test('stands on everything that is sold, and on nothing else', () => {
    const words = ['inline', 'hybrid', 'job', 'upstream_job', 'stream']
    for (const endpoint of endpoints)
      expect({ name: endpoint.name, isSold: isSold(endpoint) }).toEqual({
        name: endpoint.name,
        isSold: 'delivery' in endpoint && words.includes(endpoint.delivery),
      })
  })

  test('of inline calls and of streams comes before the money, and no other does', () => {
    const early = endpoints.filter(isSold).filter(servesBeforeSettlement)
    expect([...new Set(early.map(({ delivery }) => delivery))].sort()).toEqual(['inline', 'stream'])
  })

  test('is mixed with nothing that belongs to another one', () => {
    expect(Object.keys(mixes)).toHaveLength(11)
    expect([paid, streamed, polled, free].map((make) => typeof make)).toEqual(Array(4).fill('function'))
  })
})
