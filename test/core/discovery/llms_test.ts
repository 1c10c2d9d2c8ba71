import { describe, expect, test } from 'bun:test'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { EXAMPLE_ORIGIN, SIGNING_GUIDE } from '../../../core/discovery/signing_guide.ts'
import { FOX, kit, ORIGIN } from '../../kit.ts'

const read = async (path: string) => {
  const { gateway } = kit()
  const reply = await gateway.fetch(new Request(ORIGIN + path))
  return { status: reply.status, type: reply.headers.get('content-type'), text: await reply.text(), gateway }
}

describe('the documents for language models (contract 19.21)', () => {
  test('llms.txt names every paid route with its price, at the origin that was asked', async () => {
    const { status, type, text, gateway } = await read('/llms.txt')
    expect([status, type]).toEqual([200, 'text/markdown; charset=utf-8'])
    expect(text).toStartWith('# Farebox\n\n> ')
    const { endpoints } = JSON.parse(await (await gateway.fetch(new Request(`${ORIGIN}/api/pricing`))).text())
    for (const { price, path } of endpoints)
      expect([path, text.includes(` ${path}](${ORIGIN}${path}): `)]).toEqual([path, price !== 'free'])
    expect(text).toContain(`](${ORIGIN}/llms-full.txt)`)
    expect(text).not.toContain('gateway.invalid')
  })

  test('llms-full.txt has the fields, the price, an example and the errors of each route', async () => {
    const { type, text, gateway } = await read('/llms-full.txt')
    expect(type).toBe('text/markdown; charset=utf-8')
    const { paths } = JSON.parse(await (await gateway.fetch(new Request(`${ORIGIN}/openapi.json`))).text())
    for (const [path, item] of Object.entries<any>(paths))
      for (const [method, { 'x-quote-of': quoted }] of Object.entries<any>(item))
        expect([path, text.includes(`### ${method.toUpperCase()} ${path}\n`)]).toEqual([path, quoted === undefined])
    expect(text).toContain('- prompt (body, string, required, at most 32000 characters): What the image shows.')
    expect(text).toContain('"prompt":"a red fox in the snow"')
    expect(text).toMatch(/\n- 400: .*Invalid request body/)
    expect(text).not.toContain('undefined')
  })

  test('llms-full.txt says how to sign at its own origin, and the guide of the server has the same text', async () => {
    const { text } = await read('/llms-full.txt')
    expect(text).toContain(`## How to sign\n\n${SIGNING_GUIDE.replaceAll(EXAMPLE_ORIGIN, ORIGIN)}`)
    const guide = readFileSync(join(import.meta.dirname, '../../../server/docs/paying.md'), 'utf8')
    expect(guide).toContain(`## The offer\n\n${SIGNING_GUIDE.replaceAll('\n### ', '\n## ')}\n`)
  })

  test('a 402 links to the reference and to that text, where they are served (contract 1.11)', async () => {
    const helpOf = async (setup: Parameters<typeof kit>[0]) => {
      const { buyer } = kit(setup)
      return (await buyer().ask(FOX)).body.help
    }
    const header = 'PAYMENT-SIGNATURE'
    expect(await helpOf({})).toEqual({ header, docs: `${ORIGIN}/docs`, llms: `${ORIGIN}/llms-full.txt` })
    expect(await helpOf({ hidden: ['docs', 'discovery'] })).toEqual({ header })
  })
})
