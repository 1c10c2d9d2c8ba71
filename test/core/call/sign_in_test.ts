import { describe, expect, test } from 'bun:test'
import { memoryChain } from '../../../adapters/chains/evm/memory.ts'
import { memoryStorage } from '../../../adapters/storage/memory/mod.ts'
import { type SignInChallenge, signInText } from '../../../core/x402/sign_in.ts'
import { FOX, type Kit, kit, readyJob } from '../../kit.ts'

const ORIGIN = 'http://localhost'
const MINUTE = 60_000

/** The sign-in of a wallet for a challenge, as its header. */
function signed(chain: ReturnType<typeof memoryChain>, challenge: SignInChallenge, address: string): string {
  const { info, supportedChains } = challenge
  const chainId = supportedChains[0]?.chainId ?? ''
  const signature = chain.signText(address, signInText(info, { address, chainId, accountName: 'Ethereum' }))
  return btoa(JSON.stringify({ ...info, address, chainId, type: 'eip191', signature }))
}

async function get({ gateway }: Pick<Kit, 'gateway'>, path: string, signIn?: string) {
  const headers: Record<string, string> = signIn === undefined ? {} : { 'sign-in-with-x': signIn }
  const reply = await gateway.fetch(new Request(ORIGIN + path, { headers }))
  const header = reply.headers.get('payment-required')
  return { status: reply.status, header: header && JSON.parse(atob(header)), body: (await reply.json()) as any }
}

const challengeOf = (answer: { body: any }): SignInChallenge => answer.body.extensions['sign-in-with-x']

describe('a poll with a sign-in (contract 2.31)', () => {
  async function paidJob() {
    const chain = memoryChain()
    const job = await readyJob(kit({ inlineMs: 0, chain }))
    await job.alice.poll(job.pollUrl, job.payment)
    const [path = ''] = job.pollUrl.split('?')
    return { ...job, chain, path }
  }

  test('reads the result of its wallet, and pays nothing', async () => {
    const job = await paidJob()
    const first = await get(job, job.path)
    expect(first.status).toBe(402)
    expect(first.header.extensions['sign-in-with-x'].info).toEqual(challengeOf(first).info)
    const { status, body } = await get(job, job.path, signed(job.chain, challengeOf(first), job.alice.wallet))
    expect([status, body.payment.status]).toEqual([200, 'already_settled'])
    expect(job.chain.transfers).toHaveLength(1)
  })

  test('asks for the payment of a result that is not paid for', async () => {
    const chain = memoryChain()
    const job = await readyJob(kit({ inlineMs: 0, chain }))
    const [path = ''] = job.pollUrl.split('?')
    const signIn = signed(chain, challengeOf(await get(job, path)), job.alice.wallet)
    const { status, body } = await get(job, path, signIn)
    expect([status, body.accepts.length]).toEqual([402, 1])
    expect(chain.transfers).toEqual([])
  })

  test('of another wallet is answered like an unknown job (contract 2.32)', async () => {
    const job = await paidJob()
    const signIn = signed(job.chain, challengeOf(await get(job, job.path)), job.chain.wallet('mallory'))
    const missing = await get(job, '/api/v1/images/generations/job_00000000000000000000000000000000')
    const { status, body } = await get(job, job.path, signIn)
    expect([status, body.error]).toEqual([404, missing.body.error])
  })

  test('is good once, for one path, and for five minutes (contract 2.32)', async () => {
    const job = await paidJob()
    const why = async (signIn: string, path = job.path) => {
      const { status, body } = await get(job, path, signIn)
      return status === 402 ? body.details : status
    }
    const challenge = challengeOf(await get(job, job.path))
    const signIn = signed(job.chain, challenge, job.alice.wallet)
    expect(await why(signIn)).toBe(200)
    expect(await why(signIn)).toContain('used before')

    const list = challengeOf(await get(job, '/api/v1/wallet/calls'))
    expect(await why(signed(job.chain, list, job.alice.wallet))).toContain('is for')

    const old = challengeOf(await get(job, job.path))
    await job.clock.advance(5 * MINUTE + 1)
    expect(await why(signed(job.chain, old, job.alice.wallet))).toContain('five minutes')
  })

  test('must be signed by its address, over a challenge of ours', async () => {
    const job = await paidJob()
    const challenge = challengeOf(await get(job, job.path))
    const why = async (signIn: string) => (await get(job, job.path, signIn)).body.details
    const mine = JSON.parse(atob(signed(job.chain, challenge, job.alice.wallet)))
    const altered = (fields: object) => btoa(JSON.stringify({ ...mine, ...fields }))
    expect(await why(altered({ signature: '0x00' }))).toContain('has not signed')
    expect(await why(altered({ address: job.chain.wallet('mallory') }))).toContain('has not signed')
    expect(await why(altered({ nonce: 'f'.repeat(32) }))).toContain('not issued here')
    expect(await why(altered({ domain: 'evil.example' }))).toContain('is for')
    expect(await why(altered({ chainId: 'eip155:1' }))).toContain('not paid on eip155:1')
    expect(await why(altered({ issuedAt: 'yesterday' }))).toContain('five minutes')
    expect(await why('not base64!')).toContain('not base64')
    expect(await why(btoa('[]'))).toContain('not base64 of a signed challenge')
  })

  test('is neither asked for nor taken where only the Host header names the gateway (contract 2.32)', async () => {
    const job = await paidJob()
    const signIn = signed(job.chain, challengeOf(await get(job, job.path)), job.alice.wallet)
    const untrusted = { isHostTrusted: false }
    const request = new Request(ORIGIN + job.path, { headers: { 'sign-in-with-x': signIn } })
    const body = (await (await job.gateway.fetch(request, untrusted)).json()) as any
    expect([body.details, body.extensions['sign-in-with-x']]).toEqual([
      'this gateway has no public origin of its own, so nobody can sign in to it',
      undefined,
    ])
    const list = await job.gateway.fetch(new Request(`${ORIGIN}/api/v1/wallet/calls`), untrusted)
    expect(list.status).toBe(503)
  })

  test('of two at once at two replicas one wins', async () => {
    const chain = memoryChain()
    const storage = memoryStorage()
    const [one, other] = [
      kit({ inlineMs: 0, chain, ports: { storage } }),
      kit({ inlineMs: 0, chain, ports: { storage } }),
    ]
    const job = await readyJob(one)
    await job.alice.poll(job.pollUrl, job.payment)
    const path = '/api/v1/wallet/calls'
    const signIn = signed(chain, challengeOf(await get(one, path)), job.alice.wallet)
    const answers = await Promise.all([get(one, path, signIn), get(other, path, signIn)])
    expect(answers.map(({ status }) => status).sort()).toEqual([200, 402])
  })
})

describe('the calls of a wallet (contract 18.16)', () => {
  test('are listed for that wallet alone, newest first, in pages', async () => {
    const chain = memoryChain()
    const job = await readyJob(kit({ inlineMs: 0, chain }))
    await job.alice.poll(job.pollUrl, job.payment)
    await job.clock.advance(1_000)
    const { body: second } = await job.alice.buy(FOX)
    await job.buyer('mallory').buy(FOX)
    await job.idle()
    const list = async (query = '') => {
      const path = '/api/v1/wallet/calls'
      const signIn = signed(chain, challengeOf(await get(job, path)), job.alice.wallet)
      return await get(job, path + query, signIn)
    }
    const { status, body } = await list()
    expect([status, body.wallet, body.next_cursor]).toEqual([200, job.alice.wallet, null])
    expect(body.data.map((call: any) => [call.id, call.payment_status, call.paid])).toEqual([
      [second.id, 'verified', null],
      [job.id, 'settled', body.data[1].price],
    ])
    expect(body.data[1].transaction).toBe(chain.transfers[0]?.transaction)

    const first = await list('?limit=1')
    expect(first.body.data.map((call: any) => call.id)).toEqual([second.id])
    const next = await list(`?limit=1&cursor=${first.body.next_cursor}`)
    expect([next.body.data.map((call: any) => call.id), next.body.next_cursor]).toEqual([[job.id], null])
    expect((await job.alice.poll(body.data[1].poll_url, job.payment)).status).toBe(200)
  })

  test('ask for a sign-in and for no payment without one, and name what is wrong in a query', async () => {
    const one = kit()
    const { status, header, body } = await get(one, '/api/v1/wallet/calls')
    expect([status, header.accepts, body.accepts]).toEqual([402, [], []])
    expect((await get(one, '/api/v1/wallet/calls?limit=0')).body.details[0].path).toBe('limit')
    expect((await get(one, '/api/v1/wallet/calls?cursor=x')).body.details[0].path).toBe('cursor')
  })
})
