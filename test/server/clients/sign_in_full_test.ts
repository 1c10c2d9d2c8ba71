/** The official sign-in of `@x402/extensions`, unchanged, against a devnet: it collects and lists without paying. */
import { beforeAll, describe, expect, test } from 'bun:test'
import { createKeyPairSignerFromBytes, getBase58Encoder } from '@solana/kit'
import { x402Client } from '@x402/core/client'
import { ExactEvmScheme } from '@x402/evm'
import { createSIWxClientExtension } from '@x402/extensions/sign-in-with-x'
import { wrapFetchWithPayment } from '@x402/fetch'
import { privateKeyToAccount } from 'viem/accounts'
import { gatewayProcesses } from '../gateway_process.ts'

const processes = gatewayProcesses()
const IMAGE = {
  method: 'POST',
  headers: { 'content-type': 'application/json' },
  body: JSON.stringify({ model: 'vendor-a/image-1', prompt: 'a red fox in the snow' }),
}

type Devnet = {
  readonly gateways: readonly { name: string; base_url: string; buyer: { private_key: string } }[]
}
let devnet: Devnet
const gatewayOf = (name: string) => {
  const found = devnet.gateways.find((gateway) => gateway.name === name)
  if (!found) throw new Error(`this devnet has no gateway ${name}`)
  return found
}

beforeAll(async () => {
  const origin = await processes.start(processes.dir()).url
  devnet = (await (await fetch(`${origin}/devnet`)).json()) as Devnet
})

/** A fetch that pays on EVM, and one that only signs in. */
function clients(key: `0x${string}`) {
  const account = privateKeyToAccount(key)
  const scheme = new ExactEvmScheme(account)
  const paying = new x402Client().register('eip155:*', scheme)
  const signing = new x402Client().registerExtension(createSIWxClientExtension({ signers: [account] }))
  return { account, pay: wrapFetchWithPayment(fetch, paying), signIn: wrapFetchWithPayment(fetch, signing) }
}

describe('the official client signs in', () => {
  test('on EVM: it collects a result and lists what it bought, and pays once (contract 2.31)', async () => {
    const { base_url: origin, buyer } = gatewayOf('devnet')
    const { account, pay, signIn } = clients(buyer.private_key as `0x${string}`)
    const bought = await pay(`${origin}/api/v1/images/generations`, IMAGE)
    expect(bought.status).toBe(200)
    const { id } = (await bought.json()) as { id: string }

    const collected = await signIn(`${origin}/api/v1/images/generations/${id}`)
    expect(collected.status).toBe(200)
    expect(await collected.json()).toMatchObject({ payment: { status: 'already_settled' } })

    const listed = await signIn(`${origin}/api/v1/wallet/calls?limit=5`)
    expect(await listed.json()).toMatchObject({
      wallet: account.address,
      data: [{ id, payment_status: 'settled', paid: '0.022000' }],
      next_cursor: null,
    })
  })

  test('on Solana: it lists what its wallet bought (contract 18.16)', async () => {
    const { base_url: origin, buyer } = gatewayOf('solana')
    const signer = await createKeyPairSignerFromBytes(new Uint8Array(getBase58Encoder().encode(buyer.private_key)))
    const signing = new x402Client().registerExtension(createSIWxClientExtension({ signers: [signer as never] }))
    const listed = await wrapFetchWithPayment(fetch, signing)(`${origin}/api/v1/wallet/calls`)
    expect(listed.status).toBe(200)
    expect(await listed.json()).toMatchObject({ wallet: signer.address, data: [] })
  })

  test('and a stranger gets nothing of it (contract 2.32)', async () => {
    const { base_url: origin, buyer } = gatewayOf('devnet')
    const { pay } = clients(buyer.private_key as `0x${string}`)
    const { id } = (await (await pay(`${origin}/api/v1/images/generations`, IMAGE)).json()) as { id: string }
    const stranger = clients(`0x${'7'.repeat(64)}`)
    expect((await stranger.signIn(`${origin}/api/v1/images/generations/${id}`)).status).toBe(404)
    const listed = await stranger.signIn(`${origin}/api/v1/wallet/calls`)
    expect(await listed.json()).toMatchObject({ wallet: stranger.account.address, data: [] })
  })
})
